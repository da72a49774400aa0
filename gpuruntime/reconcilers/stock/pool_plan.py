"""Pure decision which stock a pool creates and deletes next, by the known ordinals.

Each ordinal is used only once. A pool that refills keeps `replicas` unclaimed units. A pool that
does not creates `replicas` units once, however often the leader changes. A recorded ordinal is
never created again. An unrecorded ordinal that no unit has was never created, and comes first; if
it is no longer wanted, it is recorded as skipped.
"""

import itertools
from collections.abc import Iterable
from typing import Final

import attrs

from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.phases import UnitPhase
from gpuruntime.models.kinds.pools import Refill, StockPool
from gpuruntime.models.kinds.units import GPUUnit

# Most creates in one step; the next step follows at once.
BATCH: Final = 64
# Annotation of a pool with its original uid. A restored pool has another one.
ORIGIN: Final = f"{labels.GROUP}/origin-uid"


@attrs.frozen(kw_only=True, slots=True)
class Stocktaking:
    """The stock of a pool: its living units by state, and the ordinals known to be used.

    `ordinals` are those of living units. Reading them is the slowest part for a large pool. Gaps
    are ordinals between the recorded one and the highest that no unit has; only the first ones are
    listed.
    """

    ready: tuple[GPUUnit, ...]
    progressing: tuple[GPUUnit, ...]
    failed: tuple[GPUUnit, ...]
    claimed: tuple[GPUUnit, ...]
    # Unclaimed units with another image or template than the pool's.
    stale: tuple[GPUUnit, ...] = ()
    ordinals: tuple[int, ...]
    highest: int
    gaps: tuple[int, ...] = ()
    gap_count: int = 0

    @property
    def unclaimed(self) -> tuple[GPUUnit, ...]:
        return (*self.ready, *self.progressing, *self.failed)


@attrs.frozen(kw_only=True, slots=True)
class PoolPlan:
    """Batches of ordinals to create and of units to delete; the next reconcile does the rest."""

    creates: tuple[int, ...]
    removes: tuple[GPUUnit, ...] = ()


def take_stock(
    pool: StockPool, living: Iterable[GPUUnit], takers: Iterable[GPUUnit]
) -> Stocktaking:
    """Count the stock; `takers` are active units that name the pool as their source.

    Their ordinals count as used, so that a pool whose status was lost does not seed again.
    """
    ready, progressing, failed, claimed, stale, ordinals = [], [], [], [], [], []
    taken = (provenance.source_ordinal(unit) for unit in takers if has_taken_from(pool, unit))
    used = {pool.status.seeded, *taken}
    for unit in living:
        ordinal = provenance.ordinal_of(unit)
        used.add(ordinal)
        if provenance.is_claimed(unit):
            claimed.append(unit)
            ordinals.append(ordinal)
            continue
        if provenance.is_terminating(unit):
            continue
        match provenance.present_phase(unit):
            case UnitPhase.READY:
                ready.append(unit)
            case UnitPhase.FAILED:
                failed.append(unit)
            case _:
                progressing.append(unit)
        if provenance.is_stale(unit, pool):
            stale.append(unit)
        ordinals.append(ordinal)
    highest, seeded = max(used), pool.status.seeded
    gaps = (ordinal for ordinal in range(seeded + 1, highest) if ordinal not in used)
    return Stocktaking(
        ready=tuple(ready),
        progressing=tuple(progressing),
        failed=tuple(failed),
        claimed=tuple(claimed),
        stale=tuple(stale),
        ordinals=tuple(ordinals),
        highest=highest,
        gaps=tuple(itertools.islice(gaps, BATCH)),
        gap_count=highest - seeded - sum(ordinal > seeded for ordinal in used),
    )


def has_taken_from(pool: StockPool, unit: GPUUnit) -> bool:
    """Return whether the unit took stock of this pool, or of the pool that it was restored from.

    A new pool under an old name inherits no ordinals.
    """
    source = provenance.source_pool_uid_of(unit)
    return source in ("", pool.metadata.uid, pool.metadata.annotations.get(ORIGIN))


def plan(pool: StockPool, stock: Stocktaking) -> PoolPlan:
    if pool.spec.refill == Refill.NEVER:
        missing = pool.spec.replicas - made(pool, stock)
        surplus = 0
    else:
        missing = pool.spec.replicas - len(stock.unclaimed)
        surplus = max(0, -missing)
    fresh = itertools.count(stock.highest + 1)
    ordinals = itertools.chain(stock.gaps, fresh)
    # Sorting a large stock blocks the loop, so sort only if units have to be deleted.
    unwanted = _least_wanted(stock)[: min(surplus, BATCH)] if surplus else ()
    return PoolPlan(
        creates=tuple(itertools.islice(ordinals, max(0, min(missing, BATCH)))),
        removes=tuple(
            unit for unit in unwanted if provenance.ordinal_of(unit) <= pool.status.seeded
        ),
    )


def made(pool: StockPool, stock: Stocktaking) -> int:
    """Return how many units the pool has created so far."""
    return stock.highest - stock.gap_count - pool.status.skipped


def recordable(pool: StockPool, stock: Stocktaking) -> int:
    """Return the highest ordinal up to which no unit is left to create.

    The caller makes sure that no create is on its way.
    """
    gaps = (each for each in plan(pool, stock).creates if each < stock.highest)
    return min(gaps, default=stock.highest + 1) - 1


def skipped(pool: StockPool, stock: Stocktaking, *, recorded: int) -> int:
    """Return how many ordinals up to the recorded one have never had a unit.

    Gaps are recorded all at once, when none of them is left to create.
    """
    passed = stock.gap_count if recorded >= stock.highest else 0
    return pool.status.skipped + passed


def _least_wanted(stock: Stocktaking) -> tuple[GPUUnit, ...]:
    """Return unclaimed units in deletion order: newest unready first, then newest ready."""
    unready = sorted((*stock.failed, *stock.progressing), key=provenance.ordinal_of, reverse=True)
    return (*unready, *sorted(stock.ready, key=provenance.ordinal_of, reverse=True))
