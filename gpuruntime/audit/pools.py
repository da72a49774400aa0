"""Rules of stock: a created unit is free, claimed or consumed, and an ordinal is used once."""

from collections.abc import Iterator
from typing import Final

from gpuruntime.audit.breach import Finding, reference_to
from gpuruntime.audit.index import SnapshotIndex, Tally
from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.claim_timing import GRACE_SECONDS
from gpuruntime.models.kinds.pools import Refill, StockPool, StockPoolStatus
from gpuruntime.models.kinds.reasons import ConditionType, PoolReason
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.conditions import condition_of
from gpuruntime.models.kubernetes.metadata import Key

# A status follows its units after about 2 s of quiet, and a new leader starts within a minute.
STALE_SECONDS: Final = 180.0
# Removing the stock of a deleted pool may need a change of leader.
DISSOLVE_SECONDS: Final = 180.0
# A pool with one of these reasons changes no stock.
_REFUSED: Final = frozenset(
    {PoolReason.INVALID_SPEC, PoolReason.SPEC_CONFLICT, PoolReason.STOCK_SYNC_FAILED}
)
_RECOUNT = "see in the manager's log why it does not report the pool; its next report counts again"


def sums_up(pool: StockPool, index: SnapshotIndex) -> Iterator[Finding]:
    """Created = free + claimed + consumed, in each report and against the existing stock.

    A report may be older than its stock. So units claimed and consumed since then are allowed, and
    so are units created above `seeded`, which is deliberately recorded late. Existing units that
    are counted as consumed are never allowed.

    After some time without a change the numbers must be equal. A terminating pool is exempt, since
    it no longer reports. A pool that creates its units once is not complete before the last one.
    """
    tally = index.tallies[pool.metadata.uid]
    for fault in (*_report_faults(pool), *_stock_faults(pool, tally)):
        yield Finding(
            objects=(reference_to(pool),),
            message=f"{reference_to(pool)} does not add up: {fault}",
            remedy="claim nothing of it until its stock is counted by hand; " + _RECOUNT,
            version=f"{pool.status.seeded} {pool.status.consumed}",
        )
    if fault := _premature_end(pool):
        yield Finding(
            objects=(reference_to(pool),),
            message=f"{reference_to(pool)} {fault}",
            remedy=_RECOUNT,
            allowed_seconds=STALE_SECONDS,
            version=fault,
        )
    told, counted = _told(pool), _counted(pool, tally)
    if told != counted and pool.status.conditions and not provenance.is_terminating(pool):
        yield Finding(
            objects=(reference_to(pool),),
            message=f"{reference_to(pool)} reports (free, claimed, consumed, stale) {told}, "
            f"and its stock is {counted}",
            remedy=_RECOUNT,
            allowed_seconds=STALE_SECONDS,
            version=f"{told} {counted}",
        )


def ordinal_recorded(unit: GPUUnit, index: SnapshotIndex) -> Iterator[Finding]:
    """The ordinal of consumed stock is at or below `seeded`, and is never created again.

    Stock above `seeded` is allowed while it exists. An older pool of the same name may have
    created the consumed stock, so only units younger than this pool are judged. Unless it is known
    that no such pool was deleted, the unit must be younger by the grace. Stock that is deleted by
    hand between its claim and its record is reported until the record follows.
    """
    source, pool = provenance.source_of(unit), _pool_of_source(unit, index)
    if source is None or pool is None:
        return
    ordinal, uid = provenance.source_ordinal(unit), provenance.source_uid_of(unit)
    if uid not in index.stock_by_uid and ordinal > pool.status.seeded:
        yield Finding(
            objects=(reference_to(unit), reference_to(pool)),
            message=f"{reference_to(unit)} consumed {source}, and {reference_to(pool)} has "
            f"recorded only {pool.status.seeded} ordinals: it may make {ordinal} again",
            remedy="see that a manager leads: it counts the ordinals that active units name",
        )
    living = index.unit_by_key.get(source)
    if living and living.metadata.uid != uid and provenance.is_of_pool(living, pool):
        yield Finding(
            objects=(reference_to(unit), reference_to(living)),
            message=f"{reference_to(pool)} made ordinal {ordinal} twice: "
            f"{reference_to(unit)} consumed one, and another exists",
            remedy="delete the existing stock unit, unless it is claimed",
        )


def has_pool(stock: GPUUnit, index: SnapshotIndex) -> Iterator[Finding]:
    """Stock without a claim has the pool that created it.

    Stock created by hand is allowed, and so is claimed stock, which completes its hand-off without
    its pool. The manager gets a while to delete the rest.
    """
    uid = stock.metadata.annotations.get(labels.POOL_UID, "")
    is_gone = provenance.is_orphaned(stock) and uid not in index.pool_by_uid
    if is_gone and not provenance.is_terminating(stock):
        yield Finding(
            objects=(reference_to(stock),),
            message=f"{reference_to(stock)} is stock of a pool that is gone",
            remedy="see that a manager leads, which removes it; or delete it",
            allowed_seconds=DISSOLVE_SECONDS,
        )


def stock_follows(pool: StockPool, index: SnapshotIndex) -> Iterator[Finding]:
    """Unclaimed stock takes over the image and the template of its pool.

    Ready stock may wait while another unit starts with them. Failed stock waits for nothing. The
    stock of a pool that is refused, or whose writes are, keeps what it runs.
    """
    tally = index.tallies[pool.metadata.uid]
    may_wait = tally.starting > 0 and not tally.stale_failed
    if not tally.stale or may_wait or provenance.is_terminating(pool) or _is_refused(pool):
        return
    yield Finding(
        objects=(reference_to(pool),),
        message=f"{reference_to(pool)} has another image or template than {tally.stale} of its "
        "unclaimed units, and none of them changes",
        remedy="see that a manager leads, which changes them in place",
        allowed_seconds=STALE_SECONDS,
        version=f"{pool.metadata.generation} {tally.stale}",
    )


def _is_refused(pool: StockPool) -> bool:
    ready = condition_of(pool.status.conditions, ConditionType.READY)
    return ready is not None and ready.reason in _REFUSED


def _report_faults(pool: StockPool) -> Iterator[str]:
    status = pool.status
    counts = (status.available, status.claimed, status.progressing, status.failed)
    if min(*counts, status.seeded, status.skipped, status.consumed) < 0:
        yield "a number is below zero"
    made = _made(status)
    gone = f"{status.consumed} of {made} made are consumed"
    if status.consumed > made:
        yield gone
    elif made - status.consumed > sum(counts):
        yield f"{gone}, and only {sum(counts)} are left"


def _stock_faults(pool: StockPool, tally: Tally) -> Iterator[str]:
    status, wanted = pool.status, pool.spec.replicas
    if status.consumed + tally.recorded > (made := _made(status)):
        yield f"{status.consumed} of {made} made are consumed, and {tally.recorded} exist"
    is_as_made = pool.metadata.generation <= 1
    if pool.spec.refill == Refill.NEVER and is_as_made and tally.there > wanted:
        yield f"{tally.there} exist of {wanted} to be created once"


def _premature_end(pool: StockPool) -> str:
    """Return what is wrong with a pool that calls itself complete; a unit may be terminating."""
    ready = condition_of(pool.status.conditions, ConditionType.READY)
    is_made_once = pool.spec.refill == Refill.NEVER and pool.metadata.generation <= 1
    if not is_made_once or ready is None or pool.status.created >= pool.spec.replicas:
        return ""
    is_complete = ready.reason in (PoolReason.STOCK_READY, PoolReason.STOCK_CONSUMED)
    made = f"{pool.status.created} of {pool.spec.replicas} units are made"
    return f"reports {ready.reason}, and {made}" if is_complete else ""


def _told(pool: StockPool) -> tuple[int, int, int, int]:
    status = pool.status
    free = status.available + status.progressing + status.failed
    return free, status.claimed, status.consumed, status.stale


def _counted(pool: StockPool, tally: Tally) -> tuple[int, int, int, int]:
    return tally.free, tally.claimed, _made(pool.status) - tally.recorded, tally.stale


def _made(status: StockPoolStatus) -> int:
    """Return how many units the recorded ordinals had."""
    return status.seeded - status.skipped


def _pool_of_source(unit: GPUUnit, index: SnapshotIndex) -> StockPool | None:
    """Return the pool that certainly created the stock of a started unit, or None."""
    source = provenance.source_of(unit)
    if source is None or unit.status.timeline.createdAt is None:
        return None
    pool = index.pool_by_key.get(Key(source.namespace, source.name.rpartition("-")[0]))
    if pool is None or provenance.is_terminating(pool):
        return None
    born, made = unit.metadata.creationTimestamp, pool.metadata.creationTimestamp
    if born is None or made is None:
        return None
    is_first = bool(provenance.operation_of(pool)) and (
        index.snapshot.tombstones is not None and pool.metadata.name not in index.buried_pools
    )
    margin = 0.0 if is_first else GRACE_SECONDS
    return pool if (born - made).total_seconds() > margin else None


def waits_for_a_name(pool: StockPool | None) -> bool:
    """Return whether an ordinal that cannot be created delays the record of those above it."""
    ready = condition_of(pool.status.conditions, ConditionType.READY) if pool else None
    return ready is not None and ready.reason == PoolReason.STOCK_SYNC_FAILED
