"""Whose envelope a specName has: of the pools that can be carried out, the first one's."""

from collections.abc import Iterable

from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.pools import StockPool
from gpuruntime.strict import validation


def pool_in_force(pools: Iterable[StockPool]) -> StockPool | None:
    """Until it is gone; the others are told to use its envelope.

    The oldest of those that have seeded, else the oldest: one that waits for another to go does
    not take the name from stock which was made meanwhile.
    """
    ordered = sorted(pools, key=_rank)
    return next((pool for pool in ordered if not validation.pool_problems(pool)), None)


def _rank(pool: StockPool) -> tuple[bool, float, str]:
    return (pool.status.seeded == 0, *provenance.seniority(pool))
