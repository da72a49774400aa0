"""Pure decision about a claimed stock unit: consume it, keep it for its claimant, or free it.

Stock is deleted only after its claimant has started. It is freed only when no request on its way
could still name it.
"""

from typing import TypeAlias

import attrs

from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.pools import StockPool
from gpuruntime.models.kinds.units import GPUUnit


@attrs.frozen(slots=True)
class Rest:
    """Keep the stock: it is unclaimed, or claimed for a unit that will start."""


@attrs.frozen(slots=True)
class Consume:
    """Delete the stock: its claimant has started."""


@attrs.frozen(slots=True)
class AwaitRecord:
    """Keep the stock until its pool has recorded the ordinal; its claimant has started."""


@attrs.frozen(slots=True)
class Doubt:
    """Free the stock after the grace: no unit is known that uses this claim."""


Resolution: TypeAlias = Rest | Consume | AwaitRecord | Doubt


def resolve(stock: GPUUnit, claimant: GPUUnit | None, *, is_recorded: bool) -> Resolution:
    """Decide by the claimant's status, which remembers a start even if its children are gone."""
    if not provenance.is_claimed(stock):
        return Rest()
    if claimant is None or provenance.is_doubtful(stock, claimant):
        return Doubt()
    if claimant.status.timeline.createdAt is None:
        return Rest()
    return Consume() if is_recorded else AwaitRecord()


def is_recorded(stock: GPUUnit, pool: StockPool | None) -> bool:
    """Return whether the pool has recorded the ordinal, or is gone or replaced."""
    ordinal = provenance.ordinal_of(stock)
    if not ordinal or pool is None or not provenance.is_of_pool(stock, pool):
        return True
    return ordinal <= pool.status.seeded
