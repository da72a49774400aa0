"""The use cases on storages: create, read, list, update, recover and delete.

As with pools, one write creates a storage. Without an operationID, only the name decides whether
the storage exists already, and nothing is replayed.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from random import Random
from typing import Final, TypeAlias

import attrs

from gpuruntime.concurrency.single_flight import SingleFlight
from gpuruntime.kube.errors import AlreadyExistsError, MalformedAnswerError, OutcomeUnknownError
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.encoding.members import compact, shared
from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.phases import StepPhase
from gpuruntime.models.kinds.storages import (
    GPU_STORAGES,
    RECOVER,
    GPUStorage,
    GPUStorageSpec,
    asks_to_recover,
    copy_cycle,
    source_in_use,
)
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.requests.storages import CreateStorage, UpdateStorage
from gpuruntime.operations.claim import plan as claim_plan
from gpuruntime.operations.context import OperationContext
from gpuruntime.operations.deletion import Deletions
from gpuruntime.operations.errors import (
    NameTakenError,
    NothingToRecoverError,
    StorageInUseError,
    StorageNotFoundError,
    UnknownOutcomeError,
    bounded,
)
from gpuruntime.operations.hashing import derived_name, request_hash
from gpuruntime.operations.lookup.caches import OPERATION, STORAGE
from gpuruntime.operations.lookup.repository import Repository
from gpuruntime.operations.lookup.scopes import EVERYTHING, Scope
from gpuruntime.operations.objects import body_of
from gpuruntime.operations.storage_identity import mistaken, uid_marks
from gpuruntime.operations.tombstones import Tombstones
from gpuruntime.operations.updates import changed, demand_match
from gpuruntime.strict.structure import Problem, StrictError

_Edit: TypeAlias = Callable[[GPUStorage], GPUStorage]

NONCE_BITS: Final = 64


@attrs.frozen(kw_only=True, slots=True)
class StorageOrder:
    request: CreateStorage
    request_hash: str
    key: Key
    scope: Scope

    @property
    def operation_id(self) -> str:
        return self.request.operationID


@attrs.frozen(kw_only=True, slots=True)
class StorageCreation:
    storage: GPUStorage
    is_replay: bool


@attrs.frozen(kw_only=True, slots=True)
class StoragePage:
    """`next` is the key after which the next page begins, or None on the last page."""

    storages: list[GPUStorage]
    next: Key | None = None


class Storages:
    """The use cases on storages.

    Methods raise OperationsError, or StrictError if the cluster's own validation rejects a
    storage.
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
        self._cache = context.caches.storages
        self._namespace = context.options.namespaces.instance
        self._tombstones = tombstones
        self._deletions = deletions
        self._attempts = attempts
        self._named = Repository(
            GPU_STORAGES,
            client=context.client,
            cache=self._cache,
            namespace=self._namespace,
            deletions=deletions,
            missing=_not_found,
        )

    async def create(self, request: CreateStorage, scope: Scope = EVERYTHING) -> StorageCreation:
        """Create the storage, even if the caller disconnects. A second caller gets a replay."""
        order = _order_of(request, self._namespace, scope)
        # An operationID has no blanks, so it never equals this key.
        attempt = order.operation_id or f"storage {order.key.name}"
        return await self._attempts.run(attempt, lambda: self._attempt(order))

    async def get(self, name: str, scope: Scope = EVERYTHING) -> GPUStorage:
        if cached := self._named.cached(name):
            return _in_scope(cached, scope)
        async with self._bounded(f"reading storage {name}"):
            return _in_scope(await self._named.live(name), scope)

    def page(
        self, *, limit: int, after: Key | None = None, scope: Scope = EVERYTHING
    ) -> StoragePage:
        """Return a page sorted by name, from the cache alone."""
        storages, beyond = self._named.page(limit, after, scope)
        return StoragePage(storages=storages, next=beyond)

    async def update(
        self,
        name: str,
        request: UpdateStorage,
        *,
        if_match: Collection[str] | None = None,
        scope: Scope = EVERYTHING,
    ) -> GPUStorage:
        """Update the spec; raise PreconditionFailedError unless the live ETag is in `if_match`."""

        def edit(storage: GPUStorage) -> GPUStorage:
            demand_match(_in_scope(storage, scope), if_match, what="storage")
            return attrs.evolve(storage, spec=changed(storage.spec, request))

        async with self._bounded(f"update of storage {name}"):
            return await self._named.rewrite(name, edit)

    async def recover(self, name: str, scope: Scope = EVERYTHING) -> GPUStorage:
        """Ask for another run of a failed prepare, unless that was asked for already."""
        rng = self._context.rng

        def edit(storage: GPUStorage) -> GPUStorage:
            if _in_scope(storage, scope).status.prepare.phase != StepPhase.FAILED:
                raise NothingToRecoverError(
                    f"the prepare of storage {name} did not fail: there is nothing to recover"
                )
            self._demand_free(storage)
            return storage if asks_to_recover(storage) else _asking(storage, rng)

        async with self._bounded(f"recovery of storage {name}"):
            return await self._named.rewrite(name, edit)

    async def delete(
        self,
        name: str,
        scope: Scope = EVERYTHING,
        *,
        if_match: Collection[str] | None = None,
    ) -> None:
        """Delete the storage, or raise StorageInUseError if it is mounted or copied.

        `if_match` is checked before any write. A second deletion raises StorageNotFoundError.
        """
        async with self._bounded(f"deletion of storage {name}"):
            storage = _in_scope(await self._named.live(name), scope)
            demand_match(storage, if_match, what="storage")
            self._demand_unused(storage)
            await self._deletions.delete(GPU_STORAGES, storage)

    async def demand_all(self, names: Iterable[str], scope: Scope = EVERYTHING) -> dict[str, str]:
        """Return the uids of the storages to mount or copy, by name.

        The storages are read live, since a name may belong to another storage by now. Raise
        StorageNotFoundError or KubeError.
        """
        uids = {}
        for name in names:
            found = _in_scope(await self._named.live(name), scope)
            if provenance.is_terminating(found):
                raise StorageNotFoundError(
                    f"storage {name} is being deleted: choose another one, "
                    "or create it again once it is gone"
                )
            uids[name] = found.metadata.uid
        return uids

    async def _attempt(self, order: StorageOrder) -> StorageCreation:
        async with self._bounded(f"creation of storage {order.key.name}"):
            while True:
                if order.operation_id and (storage := await self._replay(order)):
                    return StorageCreation(storage=storage, is_replay=True)
                uids = await self._source_uids(order)
                self._demand_no_circle(order)
                if creation := await self._create(order, uids):
                    return creation

    async def _replay(self, order: StorageOrder) -> GPUStorage | None:
        """Return the storage of an earlier attempt, or None.

        Raise an error if the operation is finished or belongs to another object. A late create may
        have brought a deleted storage back, so the tombstone decides.
        """
        caches = self._context.caches
        for cache in (caches.units, caches.stock, caches.pools):
            if cache.store.by_index(OPERATION, order.operation_id):
                raise claim_plan.operation_conflict(order.operation_id)
        demand_same = partial(_demand_same, order)
        found = await self._named.of_operation(order.operation_id, demand_same)
        if await self._tombstones.find(order.operation_id):
            raise claim_plan.operation_finished(order.operation_id)
        return found

    async def _create(
        self, order: StorageOrder, source_uids: Mapping[str, str]
    ) -> StorageCreation | None:
        """Create the storage, or return None if the object that had its name is gone again."""
        try:
            storage = await self._context.client.create(
                GPU_STORAGES, _new_storage(order, source_uids), namespace=order.key.namespace
            )
        except AlreadyExistsError:
            found = await self._named.read(order.key)
            if found is None:
                return None
            return StorageCreation(storage=_demand_same(order, found), is_replay=True)
        except (OutcomeUnknownError, MalformedAnswerError) as error:
            found = await self._named.read(order.key) if order.operation_id else None
            if found is None or not _is_of(found, order):
                raise UnknownOutcomeError(
                    f"storage {order.key}: whether it was created is not known; "
                    "read it, or send the operation again"
                ) from error
            return StorageCreation(storage=found, is_replay=False)
        self._cache.write_through(storage)
        return StorageCreation(storage=storage, is_replay=False)

    async def _source_uids(self, order: StorageOrder) -> dict[str, str]:
        """Return the uid of the storage to copy from, by name.

        A caller bound to tenants must name a storage that exists, since a later one of the name
        may belong to another tenant. For other callers the storage may be created later.
        """
        source = order.request.prepare.fromStorageName if order.request.prepare else ""
        if not source:
            return {}
        try:
            return await self.demand_all((source,), order.scope)
        except StorageNotFoundError:
            if order.scope.is_bound:
                raise
            return {}

    def _demand_no_circle(self, order: StorageOrder) -> None:
        """Reject a cycle of copies early; its storages would wait for each other forever."""
        store = self._cache.store
        chain = copy_cycle(
            order.key.name,
            order.request.prepare,
            lambda source: store.get(Key(self._namespace, source)),
        )
        if chain:
            circle = " from ".join(chain)
            message = f"closes a circle of copies: {circle}; copy from another storage"
            raise StrictError((Problem(field="prepare.fromStorageName", message=message),))

    def _demand_free(self, storage: GPUStorage) -> None:
        """Raise StorageInUseError if a unit holds the storage; waiting units are no obstacle."""
        if storage.status.holder is not None:
            raise _in_use(storage, {storage.status.holder.name})

    def _demand_unused(self, storage: GPUStorage) -> None:
        """Raise StorageInUseError if the storage is mounted or copied.

        This cache may not show the latest mount, so the finalizer has the last word.
        """
        name, holder = storage.metadata.name, storage.status.holder
        names = {holder.name} if holder else set()
        mounting = self._context.caches.units.store.by_index(STORAGE, name)
        names |= {
            unit.metadata.name
            for unit in mounting
            if not (self._deletions.has_deleted(unit) or mistaken(unit, storage))
        }
        if names:
            raise _in_use(storage, names)
        stored = self._cache.store.values()
        copies = {each.metadata.name for each in stored if source_in_use(each) == name}
        if copies:
            raise StorageInUseError(
                f"storage {name} is being copied to {', '.join(sorted(copies))}: "
                "wait for the end of the copy, or delete what it fills"
            )

    def _bounded(self, what: str) -> AbstractAsyncContextManager[None]:
        return bounded(what, self._context.options.attempt_seconds)


def _order_of(request: CreateStorage, namespace: str, scope: Scope) -> StorageOrder:
    return StorageOrder(
        request=request,
        request_hash=request_hash(request),
        key=Key(namespace, request.name or derived_name(request.operationID)),
        scope=scope,
    )


def _new_storage(order: StorageOrder, source_uids: Mapping[str, str]) -> JsonObject:
    request, key = order.request, order.key
    spec = GPUStorageSpec(**shared(request, GPUStorageSpec))
    tenant = {labels.TENANT: request.tenant} if request.tenant else {}
    operation = {
        labels.OPERATION_ID: request.operationID,
        labels.REQUEST_HASH: order.request_hash,
    }
    metadata: JsonObject = {
        "name": key.name,
        "namespace": key.namespace,
        "labels": {
            labels.APP_NAME: labels.STORAGE_APP,
            labels.MANAGED_BY: labels.MANAGER,
            labels.STORAGE: key.name,
            **tenant,
        },
        "annotations": {
            **(operation if request.operationID else {}),
            **uid_marks(source_uids),
        },
    }
    return body_of(GPU_STORAGES, metadata, compact(spec))


def _asking(storage: GPUStorage, rng: Random) -> GPUStorage:
    nonce = f"{rng.getrandbits(NONCE_BITS):x}"
    annotations = {**storage.metadata.annotations, RECOVER: nonce}
    return attrs.evolve(storage, metadata=attrs.evolve(storage.metadata, annotations=annotations))


def _demand_same(order: StorageOrder, storage: GPUStorage) -> GPUStorage:
    operation, name = order.operation_id, storage.metadata.name
    if not operation and provenance.is_terminating(storage):
        raise NameTakenError(
            f"storage {name} is being deleted: wait until it is gone, or choose another name"
        )
    if not operation:
        raise NameTakenError(f"storage {name} exists already: update it, or choose another name")
    if provenance.operation_of(storage) != operation:
        raise claim_plan.name_taken(storage.metadata.key)
    if not _is_of(storage, order):
        raise claim_plan.operation_conflict(operation)
    if provenance.is_terminating(storage):
        raise claim_plan.operation_finished(operation)
    return storage


def _is_of(storage: GPUStorage, order: StorageOrder) -> bool:
    return provenance.is_of(storage, order.operation_id, order.request_hash)


def _in_use(storage: GPUStorage, units: set[str]) -> StorageInUseError:
    return StorageInUseError(
        f"storage {storage.metadata.name} is mounted by {', '.join(sorted(units))}: "
        "delete it there first, or take it out of storageMounts"
    )


def _in_scope(storage: GPUStorage, scope: Scope) -> GPUStorage:
    if not scope.holds(storage):
        raise _not_found(storage.metadata.name)
    return storage


def _not_found(name: str) -> StorageNotFoundError:
    return StorageNotFoundError(f"storage {name} does not exist")
