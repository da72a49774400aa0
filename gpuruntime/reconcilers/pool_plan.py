"""Which stock a pool makes and removes next, decided from what is known of its ordinals.

An ordinal is used once in all. A refill pool keeps so many unclaimed units; the other kind makes
each of its ordinals once, however often whoever makes them dies.
"""

from collections.abc import Iterable
from typing import Final

import attrs

from gpuruntime.inventory import provenance
from gpuruntime.models.phases import UnitPhase, phase_of
from gpuruntime.models.pools import Refill, StockPool
from gpuruntime.models.units import GPUUnit
from gpuruntime.reconcilers.handoff_plan import ordinal_of

# So many creates in one go; the rest follows at once.
BATCH: Final = 64


@attrs.frozen(kw_only=True, slots=True)
class Stocktaking:
    """What there is of a pool: its living units by kind, and the highest ordinal known."""

    ready: tuple[GPUUnit, ...]
    progressing: tuple[GPUUnit, ...]
    failed: tuple[GPUUnit, ...]
    claimed: tuple[GPUUnit, ...]
    highest: int

    @property
    def unclaimed(self) -> int:
        return len(self.ready) + len(self.progressing) + len(self.failed)

    @property
    def living(self) -> int:
        return self.unclaimed + len(self.claimed)


@attrs.frozen(kw_only=True, slots=True)
class PoolPlan:
    creates: range
    removes: tuple[GPUUnit, ...] = ()
    is_cut_short: bool = False


def take_stock(
    pool: StockPool, living: Iterable[GPUUnit], consumed_ordinals: Iterable[int]
) -> Stocktaking:
    """`consumed_ordinals` are those that active units name: a lost status does not seed again."""
    ready, progressing, failed, claimed = [], [], [], []
    highest = max((pool.status.seeded, *consumed_ordinals))
    for unit in living:
        highest = max(highest, ordinal_of(unit))
        if provenance.is_claimed(unit):
            claimed.append(unit)
        elif provenance.is_terminating(unit):
            continue
        elif provenance.is_ready(unit):
            ready.append(unit)
        elif phase_of(unit.status.conditions) is UnitPhase.FAILED:
            failed.append(unit)
        else:
            progressing.append(unit)
    return Stocktaking(
        ready=tuple(ready),
        progressing=tuple(progressing),
        failed=tuple(failed),
        claimed=tuple(claimed),
        highest=highest,
    )


def plan(pool: StockPool, stock: Stocktaking) -> PoolPlan:
    if pool.spec.refill == Refill.NEVER:
        missing = max(0, pool.spec.replicas - stock.highest)
        surplus = 0
    else:
        missing = max(0, pool.spec.replicas - stock.unclaimed)
        surplus = max(0, stock.unclaimed - pool.spec.replicas)
    count = min(missing, BATCH)
    return PoolPlan(
        creates=range(stock.highest + 1, stock.highest + 1 + count),
        removes=_least_wanted(stock)[: min(surplus, BATCH)],
        is_cut_short=missing > BATCH or surplus > BATCH,
    )


def _least_wanted(stock: Stocktaking) -> tuple[GPUUnit, ...]:
    """The newest that is not ready first, then the newest that is; never a claimed one."""
    unready = sorted((*stock.failed, *stock.progressing), key=ordinal_of, reverse=True)
    return (*unready, *sorted(stock.ready, key=ordinal_of, reverse=True))
