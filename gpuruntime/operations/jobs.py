"""Jobs are pools, seen as the operations that created them; no other record of a job exists."""

from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Final

import attrs

from gpuruntime.kube.errors import NotFoundError
from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.pools import STOCK_POOLS, StockPool
from gpuruntime.models.kinds.reasons import ConditionType, PoolReason
from gpuruntime.models.kubernetes.conditions import Condition, condition_of
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.views.operators import Job, JobStatus
from gpuruntime.operations.context import OperationContext
from gpuruntime.operations.deletion import Deletions
from gpuruntime.operations.errors import JobNotFoundError, bounded
from gpuruntime.operations.hashing import derived_name
from gpuruntime.operations.lookup.caches import OPERATION
from gpuruntime.operations.lookup.ordering import OrderedCache, Place
from gpuruntime.operations.lookup.shared_reads import SharedReads, list_all
from gpuruntime.operations.objects import operation_type_of

# A job that failed for one of these reasons proceeds only after the pool's spec changes.
_FAILURES: Final = (PoolReason.INVALID_SPEC, PoolReason.SPEC_CONFLICT)
# While a pool has one of these reasons, its message is the job's error.
_ERRORS: Final = (*_FAILURES, PoolReason.STOCK_FAILED, PoolReason.STOCK_SYNC_FAILED)


@attrs.frozen(kw_only=True, slots=True)
class JobPage:
    """`next` is the operationID after which the next page begins, or empty on the last page."""

    jobs: list[Job]
    next: str = ""


def job_of(pool: StockPool) -> Job:
    """Return the job of a pool; it counts the units that the pool's status confirms."""
    ready = condition_of(pool.status.conditions, ConditionType.READY)
    return Job(
        operationID=provenance.operation_of(pool),
        type=operation_type_of(pool),
        status=_status_of(pool, ready),
        objectName=pool.metadata.name,
        objectNamespace=pool.metadata.namespace,
        requested=pool.spec.replicas,
        created=pool.status.created,
        ready=pool.status.available,
        consumed=pool.status.consumed,
        error=ready.message if ready and ready.reason in _ERRORS else "",
        message=ready.message if ready and not ready.is_true else "",
        createdAt=pool.metadata.creationTimestamp,
        updatedAt=max(_moments_of(pool), default=None),
    )


def _status_of(pool: StockPool, ready: Condition | None) -> JobStatus:
    if pool.status.created >= pool.spec.replicas:
        return JobStatus.SUCCEEDED
    if ready is not None and ready.reason in _FAILURES:
        return JobStatus.FAILED
    return JobStatus.RUNNING if pool.status.observedGeneration else JobStatus.PENDING


def _moments_of(pool: StockPool) -> Iterator[datetime]:
    moments = [each.lastTransitionTime for each in pool.status.conditions]
    for moment in (pool.metadata.creationTimestamp, *moments):
        if moment is not None:
            yield moment


def _place_of(pool: StockPool) -> Place | None:
    """Return the place in lists of jobs, or None if no operation created the pool."""
    operation = provenance.operation_of(pool)
    return (operation, pool.metadata.name) if operation else None


class Jobs:
    """Reads jobs. A job lives as long as its pool, and every replica reports the same job."""

    def __init__(self, context: OperationContext, deletions: Deletions) -> None:
        self._context = context
        self._deletions = deletions
        self._namespace = context.options.namespaces.stock
        self._lists = SharedReads(self._list_live)
        self._ordered = OrderedCache(context.caches.pools, _place_of)

    async def get(self, operation_id: str) -> Job:
        """Return the job; raise JobNotFoundError only after a live read."""
        for pool in self._context.caches.pools.store.by_index(OPERATION, operation_id):
            if not self._deletions.has_deleted(pool):
                return job_of(pool)
        async with bounded(f"reading job {operation_id}", self._context.options.attempt_seconds):
            found = await self._live(operation_id)
        if found is None:
            raise JobNotFoundError(f"job {operation_id} does not exist")
        return job_of(found)

    def page(self, *, limit: int, after: str = "") -> JobPage:
        """Return a page sorted by operationID, from the cache alone."""
        pools = list(islice(self._made_after(after), limit + 1))
        jobs = [job_of(pool) for pool in pools[:limit]]
        return JobPage(jobs=jobs, next=jobs[-1].operationID if len(pools) > limit else "")

    def _made_after(self, operation: str) -> Iterator[StockPool]:
        """Yield one pool for each operation, even if two pools have the same operation."""
        for pool in self._ordered.after((operation,) if operation else ()):
            if provenance.operation_of(pool) != operation:
                operation = provenance.operation_of(pool)
                yield pool

    async def _list_live(self, namespace: str) -> list[StockPool]:
        return await list_all(self._context.client, STOCK_POOLS, namespace=namespace)

    async def _live(self, operation_id: str) -> StockPool | None:
        """Read the pool by the name derived from its operationID, else list all pools.

        The list is needed because callers may choose another name.
        """
        try:
            key = Key(self._namespace, derived_name(operation_id))
            found = [await self._context.client.get(STOCK_POOLS, key)]
        except NotFoundError:
            found = await self._lists.get(self._namespace)
        return next(
            (each for each in found if provenance.operation_of(each) == operation_id), None
        )
