"""What becomes of a claimed stock unit: consumed by its claimant, kept for it, or freed again.

Nothing is deleted before its successor has started, and nothing is freed that a request still on
its way could come to name.
"""

from typing import TypeAlias

import attrs

from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.pools import StockPool
from gpuruntime.models.kinds.units import GPUUnit


@attrs.frozen(slots=True)
class Rest:
    """Unclaimed, or claimed for a unit that will start."""


@attrs.frozen(slots=True)
class Consume:
    """Its claimant has started: the stock unit goes."""


@attrs.frozen(slots=True)
class AwaitRecord:
    """Its claimant has started, and its pool has yet to record the ordinal."""


@attrs.frozen(slots=True)
class Doubt:
    """No unit lives from this claim, as far as anyone knows: free it after the grace."""


Resolution: TypeAlias = Rest | Consume | AwaitRecord | Doubt


def resolve(stock: GPUUnit, claimant: GPUUnit | None, *, is_recorded: bool) -> Resolution:
    """A start counts once the claimant's status remembers it, whatever becomes of its children."""
    if not provenance.is_claimed(stock):
        return Rest()
    if claimant is None or provenance.is_doubtful(stock, claimant):
        return Doubt()
    if claimant.status.timeline.createdAt is None:
        return Rest()
    return Consume() if is_recorded else AwaitRecord()


def is_recorded(stock: GPUUnit, pool: StockPool | None) -> bool:
    """A pool that is gone counts as having recorded, and so does one of another uid."""
    ordinal = provenance.ordinal_of(stock)
    if not ordinal or pool is None or not provenance.is_of_pool(stock, pool):
        return True
    return ordinal <= pool.status.seeded
