"""Pure decision which stale stock takes the image and template of its pool next.

Failed stock offers nothing, so it follows at once. A ready unit cannot be claimed between its
change and its next readiness. So one ready unit is the canary, and the rest follow in parts.
"""

from collections.abc import Iterable
from typing import Final

from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.pools import StockPool
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.reconcilers.stock.pool_plan import BATCH, Stocktaking

# After the canary, at most one unclaimed unit of this many is away at a time.
PARTS: Final = 4


def next_to_follow(pool: StockPool, stock: Stocktaking) -> tuple[GPUUnit, ...]:
    """Return the units to change now, which are never claimed ones.

    If a unit was ready before its change and fails after it, only failed units follow.
    """
    if not stock.stale:
        return ()
    failed, progressing, ready = (
        _stale(units, pool) for units in (stock.failed, stock.progressing, stock.ready)
    )
    if _away(stock.failed, pool):
        return failed[:BATCH]
    away = len(_away(stock.progressing, pool))
    is_proven = len(ready) < len(stock.ready)
    most = max(1, len(stock.unclaimed) // PARTS) if is_proven else 1
    # If no unit can be the canary, the change takes nothing away.
    unready = progressing if is_proven or not (ready or away) else ()
    return (*failed, *unready, *ready[: max(0, most - away)])[:BATCH]


def _stale(units: Iterable[GPUUnit], pool: StockPool) -> tuple[GPUUnit, ...]:
    stale = (unit for unit in units if provenance.is_stale(unit, pool))
    return tuple(sorted(stale, key=provenance.ordinal_of))


def _away(unready: Iterable[GPUUnit], pool: StockPool) -> tuple[GPUUnit, ...]:
    """Return the units that were ready once, and are not ready with the pool's own spec."""
    return tuple(
        unit
        for unit in unready
        if unit.status.timeline.readyAt is not None and not provenance.is_stale(unit, pool)
    )
