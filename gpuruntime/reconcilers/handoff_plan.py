"""What becomes of a claimed stock unit: consumed by its claimant, kept for it, or freed again.

Nothing is deleted before its successor has started, and nothing is freed that a request still on
its way could come to name.
"""

from typing import Final, TypeAlias

import attrs

from gpuruntime.inventory import provenance
from gpuruntime.models import labels
from gpuruntime.models.pools import StockPool
from gpuruntime.models.units import GPUUnit

# Above the longest time from a claim to the end of its create, whoever sent them.
GRACE_SECONDS: Final = 90.0
# On a stock unit: which pool made it, since a name may be used again.
POOL_UID: Final = f"{labels.GROUP}/pool-uid"


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
    if claimant is None or is_doubtful(stock, claimant):
        return Doubt()
    if claimant.status.timeline.createdAt is None:
        return Rest()
    return Consume() if is_recorded else AwaitRecord()


def is_doubtful(stock: GPUUnit, claimant: GPUUnit | None) -> bool:
    """What bears the name that the claim names, if anything does, lives from another stock."""
    return claimant is None or (
        provenance.operation_of(claimant) != provenance.operation_of(stock)
        or provenance.source_uid_of(claimant) != stock.metadata.uid
    )


def pool_of(stock: GPUUnit) -> str:
    """The name of the pool that made it; empty for stock that somebody made by hand."""
    return stock.metadata.labels.get(labels.POOL, "") if _is_made(stock) else ""


def is_orphaned(stock: GPUUnit) -> bool:
    """Of a unit whose pool is gone: unclaimed, nobody would ever count it."""
    return _is_made(stock) and not provenance.is_claimed(stock)


def ordinal_of(stock: GPUUnit) -> int:
    """0 for a stock unit that no pool made."""
    pool, _, ordinal = stock.metadata.name.rpartition("-")
    is_made = stock.metadata.labels.get(labels.POOL) == pool and ordinal.isdecimal()
    return int(ordinal) if is_made else 0


def source_ordinal(unit: GPUUnit) -> int:
    """The ordinal of the stock that an active unit names; 0 for none."""
    source = provenance.source_of(unit)
    ordinal = source.name.rpartition("-")[2] if source else ""
    return int(ordinal) if ordinal.isdecimal() else 0


def is_recorded(stock: GPUUnit, pool: StockPool | None) -> bool:
    """A pool that is gone counts as having recorded, and so does one of another uid."""
    ordinal = ordinal_of(stock)
    if not ordinal or pool is None or not is_of_pool(stock, pool):
        return True
    return ordinal <= pool.status.seeded


def is_of_pool(stock: GPUUnit, pool: StockPool) -> bool:
    return stock.metadata.annotations.get(POOL_UID, "") == pool.metadata.uid


def _is_made(stock: GPUUnit) -> bool:
    return POOL_UID in stock.metadata.annotations
