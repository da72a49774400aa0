"""The use cases on pools: seed stock, create, read, list, update and delete.

A pool is the whole record of its operation. It needs no stock, so one write creates it. The
operation is looked up first, because all kinds share one name space of operationIDs.

Requests for two kinds under one operationID may reach two replicas within the lag of their caches.
Then both objects may be created, since a single write arbitrates only within one kind. Likewise,
two pools of one specName may be created with different envelopes. Then the younger pool seeds
nothing.
"""

from collections.abc import Collection
from contextlib import AbstractAsyncContextManager
from functools import partial

import attrs

from gpuruntime.concurrency.keyed_lock import KeyedLock
from gpuruntime.concurrency.single_flight import SingleFlight
from gpuruntime.kube.errors import AlreadyExistsError, MalformedAnswerError, OutcomeUnknownError
from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.envelopes import envelope_of
from gpuruntime.models.kinds.pools import STOCK_POOLS, StockPool
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.requests.pools import CreatePool, SeedStock, UpdatePool
from gpuruntime.operations.claim import plan as claim_plan
from gpuruntime.operations.context import OperationContext
from gpuruntime.operations.deletion import Deletions
from gpuruntime.operations.errors import (
    PoolNotFoundError,
    SpecConflictError,
    UnknownOutcomeError,
    bounded,
)
from gpuruntime.operations.lookup.caches import OPERATION, SPEC
from gpuruntime.operations.lookup.repository import Repository, pool_in_force
from gpuruntime.operations.objects import (
    PoolOrder,
    new_pool,
    operation_type,
    operation_type_of,
    pool_order,
)
from gpuruntime.operations.tombstones import Tombstones
from gpuruntime.operations.updates import changed, demand_match


@attrs.frozen(kw_only=True, slots=True)
class PoolCreation:
    pool: StockPool
    is_replay: bool


@attrs.frozen(kw_only=True, slots=True)
class PoolPage:
    """`next` is the key after which the next page begins, or None on the last page."""

    pools: list[StockPool]
    next: Key | None = None


class Pools:
    """The use cases on pools.

    Methods raise OperationsError, or StrictError if the cluster's own validation rejects a pool.
    """

    def __init__(
        self,
        context: OperationContext,
        *,
        tombstones: Tombstones,
        deletions: Deletions,
        attempts: SingleFlight,
    ) -> None:
        self._context = context
        self._cache = context.caches.pools
        self._namespace = context.options.namespaces.stock
        self._named = Repository(
            STOCK_POOLS,
            client=context.client,
            cache=self._cache,
            namespace=self._namespace,
            deletions=deletions,
            missing=_not_found,
        )
        self._tombstones = tombstones
        self._deletions = deletions
        self._attempts = attempts
        # Creates of one specName run in turn, so that each finds the previous pool in the cache.
        self._turns = KeyedLock[str]()

    async def create(self, request: SeedStock | CreatePool) -> PoolCreation:
        """Create the pool, even if the caller disconnects. A second caller gets a replay."""
        order = pool_order(request, self._namespace)
        return await self._attempts.run(request.operationID, lambda: self._attempt(order))

    async def get(self, name: str) -> StockPool:
        if cached := self._named.cached(name):
            return cached
        async with self._bounded(f"reading pool {name}"):
            return await self._named.live(name)

    def page(self, *, limit: int, after: Key | None = None) -> PoolPage:
        """Return a page sorted by name, from the cache alone."""
        pools, beyond = self._named.page(limit, after)
        return PoolPage(pools=pools, next=beyond)

    async def update(
        self, name: str, request: UpdatePool, *, if_match: Collection[str] | None = None
    ) -> StockPool:
        """Update the spec; raise PreconditionFailedError unless the live ETag is in `if_match`."""

        def edit(pool: StockPool) -> StockPool:
            demand_match(pool, if_match, what="pool")
            return attrs.evolve(pool, spec=changed(pool.spec, request))

        async with self._bounded(f"update of pool {name}"):
            return await self._named.rewrite(name, edit)

    async def delete(self, name: str, *, if_match: Collection[str] | None = None) -> None:
        """Delete the pool; its unclaimed stock is deleted with it.

        `if_match` is checked before any write. A second deletion raises PoolNotFoundError.
        """
        async with self._bounded(f"deletion of pool {name}"):
            pool = await self._named.live(name)
            demand_match(pool, if_match, what="pool")
            await self._deletions.delete(STOCK_POOLS, pool)

    async def _attempt(self, order: PoolOrder) -> PoolCreation:
        async with self._bounded(f"operation {order.operation_id}"):
            while True:
                if pool := await self._replay(order):
                    return PoolCreation(pool=pool, is_replay=True)
                async with self._turns.of(order.request.specName):
                    self._demand_one_envelope(order)
                    if creation := await self._create(order):
                        return creation

    async def _replay(self, order: PoolOrder) -> StockPool | None:
        """Return the pool of an earlier attempt, or None.

        Raise an error if the operation is finished or belongs to another object. A late create may
        have brought a deleted pool back, so the tombstone decides.
        """
        caches = self._context.caches
        for cache in (caches.units, caches.stock, caches.storages):
            if cache.store.by_index(OPERATION, order.operation_id):
                raise claim_plan.operation_conflict(order.operation_id)
        demand_same = partial(self._demand_same, order)
        found = await self._named.of_operation(order.operation_id, demand_same)
        if await self._tombstones.find(order.operation_id):
            raise claim_plan.operation_finished(order.operation_id)
        return found

    async def _create(self, order: PoolOrder) -> PoolCreation | None:
        """Create the pool, or return None if the object that had its name is gone again."""
        try:
            body = new_pool(order)
            pool = await self._context.client.create(
                STOCK_POOLS, body, namespace=order.key.namespace
            )
        except AlreadyExistsError:
            found = await self._named.read(order.key)
            if found is None:
                return None
            return PoolCreation(pool=self._demand_same(order, found), is_replay=True)
        except (OutcomeUnknownError, MalformedAnswerError) as error:
            found = await self._named.read(order.key)
            if found is None or not _is_of(found, order):
                raise UnknownOutcomeError(
                    f"pool {order.key}: whether it was created is not known; "
                    f"send operation {order.operation_id} again"
                ) from error
            return PoolCreation(pool=found, is_replay=False)
        self._cache.write_through(pool)
        return PoolCreation(pool=pool, is_replay=False)

    def _demand_same(self, order: PoolOrder, pool: StockPool) -> StockPool:
        if provenance.operation_of(pool) != order.operation_id:
            raise claim_plan.name_taken(pool.metadata.key)
        if not _is_of(pool, order):
            raise claim_plan.operation_conflict(order.operation_id)
        if provenance.is_terminating(pool):
            raise claim_plan.operation_finished(order.operation_id)
        return pool

    def _demand_one_envelope(self, order: PoolOrder) -> None:
        """Reject another envelope early; such a pool would seed nothing, and report that late."""
        spec_name, asked = order.request.specName, envelope_of(order.request)
        pool = pool_in_force(self._cache.store.by_index(SPEC, spec_name))
        if pool is not None and not envelope_of(pool.spec).may_equal(asked):
            raise _spec_conflict(spec_name, f"pool {pool.metadata.name}")
        for unit in self._context.caches.stock.store.by_index(SPEC, spec_name):
            if not envelope_of(unit.spec).may_equal(asked):
                raise _spec_conflict(spec_name, f"stock unit {unit.metadata.name}")

    def _bounded(self, what: str) -> AbstractAsyncContextManager[None]:
        return bounded(what, self._context.options.attempt_seconds)


def _is_of(pool: StockPool, order: PoolOrder) -> bool:
    """Return whether the request created the pool.

    Two types of request may have one hash, so the type that is recorded on the pool counts, too.
    """
    is_same_type = operation_type_of(pool) == operation_type(order.request)
    return is_same_type and provenance.is_of(pool, order.operation_id, order.request_hash)


def _not_found(name: str) -> PoolNotFoundError:
    return PoolNotFoundError(f"pool {name} does not exist")


def _spec_conflict(spec_name: str, holder: str) -> SpecConflictError:
    return SpecConflictError(
        f"{spec_name} has another envelope in {holder}: use that one, or another specName"
    )
