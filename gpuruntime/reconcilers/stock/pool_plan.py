"""Which stock a pool makes and removes next, decided from what is known of its ordinals.

An ordinal is used once in all. A refill pool keeps so many unclaimed units; the other kind makes
each of its ordinals once, however often whoever makes them dies. What was recorded is never made
again; above that, an ordinal that nobody has seen was not made yet, and goes first.
"""

import itertools
from collections.abc import Iterable
from typing import Final

import attrs

from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.phases import UnitPhase, phase_of
from gpuruntime.models.kinds.pools import Refill, StockPool
from gpuruntime.models.kinds.units import GPUUnit

# So many creates in one go; the rest follows at once.
BATCH: Final = 64
# On a pool: the uid that it began with. A restore brings it back under another one.
ORIGIN: Final = f"{labels.GROUP}/origin-uid"


@attrs.frozen(kw_only=True, slots=True)
class Stocktaking:
    """What there is of a pool: its living units by kind, and the ordinals known to be used.

    `ordinals` are of the living ones: to read them takes longest of a large pool. Gaps are the
    ordinals between the recorded one and the highest that nobody has seen; of many only the first
    are listed.
    """

    ready: tuple[GPUUnit, ...]
    progressing: tuple[GPUUnit, ...]
    failed: tuple[GPUUnit, ...]
    claimed: tuple[GPUUnit, ...]
    ordinals: tuple[int, ...]
    highest: int
    gaps: tuple[int, ...] = ()
    gap_count: int = 0

    @property
    def unclaimed(self) -> tuple[GPUUnit, ...]:
        return (*self.ready, *self.progressing, *self.failed)


@attrs.frozen(kw_only=True, slots=True)
class PoolPlan:
    """Batches: what is left over comes next time."""

    creates: tuple[int, ...]
    removes: tuple[GPUUnit, ...] = ()


def take_stock(
    pool: StockPool, living: Iterable[GPUUnit], takers: Iterable[GPUUnit]
) -> Stocktaking:
    """`takers` are active units that name the pool: a lost status does not seed again."""
    ready, progressing, failed, claimed, ordinals = [], [], [], [], []
    taken = (provenance.source_ordinal(unit) for unit in takers if has_taken_from(pool, unit))
    used = {pool.status.seeded, *taken}
    for unit in living:
        ordinal = provenance.ordinal_of(unit)
        used.add(ordinal)
        if provenance.is_claimed(unit):
            claimed.append(unit)
        elif provenance.is_terminating(unit):
            continue
        elif (phase := phase_of(unit.status.conditions)) is UnitPhase.READY:
            ready.append(unit)
        elif phase is UnitPhase.FAILED:
            failed.append(unit)
        else:
            progressing.append(unit)
        ordinals.append(ordinal)
    highest, seeded = max(used), pool.status.seeded
    gaps = (ordinal for ordinal in range(seeded + 1, highest) if ordinal not in used)
    return Stocktaking(
        ready=tuple(ready),
        progressing=tuple(progressing),
        failed=tuple(failed),
        claimed=tuple(claimed),
        ordinals=tuple(ordinals),
        highest=highest,
        gaps=tuple(itertools.islice(gaps, BATCH)),
        gap_count=highest - seeded - sum(ordinal > seeded for ordinal in used),
    )


def has_taken_from(pool: StockPool, unit: GPUUnit) -> bool:
    """A pool made anew under an old name inherits nothing, and a restored one what it began."""
    source = provenance.source_pool_uid_of(unit)
    return source in ("", pool.metadata.uid, pool.metadata.annotations.get(ORIGIN))


def plan(pool: StockPool, stock: Stocktaking) -> PoolPlan:
    if pool.spec.refill == Refill.NEVER:
        missing = pool.spec.replicas - (stock.highest - stock.gap_count)
        surplus = 0
    else:
        missing = pool.spec.replicas - len(stock.unclaimed)
        surplus = max(0, -missing)
    fresh = itertools.count(stock.highest + 1)
    ordinals = itertools.chain(stock.gaps, fresh)
    # To sort a large stock holds the loop: only for what has to go.
    unwanted = _least_wanted(stock)[: min(surplus, BATCH)] if surplus else ()
    return PoolPlan(
        creates=tuple(itertools.islice(ordinals, max(0, min(missing, BATCH)))),
        removes=tuple(
            unit for unit in unwanted if provenance.ordinal_of(unit) <= pool.status.seeded
        ),
    )


def recordable(pool: StockPool, stock: Stocktaking) -> int:
    """The highest ordinal up to which nothing is left to make, once no create is on its way."""
    gaps = (each for each in plan(pool, stock).creates if each < stock.highest)
    return min(gaps, default=stock.highest + 1) - 1


def _least_wanted(stock: Stocktaking) -> tuple[GPUUnit, ...]:
    """The newest that is not ready first, then the newest that is; never a claimed one."""
    unready = sorted((*stock.failed, *stock.progressing), key=provenance.ordinal_of, reverse=True)
    return (*unready, *sorted(stock.ready, key=provenance.ordinal_of, reverse=True))
