"""The use cases on units: create, read, change and delete."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Final

import attrs

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.concurrency.keyed_lock import KeyedLock
from gpuruntime.concurrency.single_flight import SingleFlight
from gpuruntime.kube.errors import NotFoundError
from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.functions import Serverless
from gpuruntime.models.kinds.units import (
    GPU_UNITS,
    MOST_GENERATIONS,
    Access,
    GPUUnit,
    GPUUnitSpec,
)
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.names import is_dns_label
from gpuruntime.models.requests.fields import UNSET, Given
from gpuruntime.models.requests.units import CreateUnit, UpdateUnit
from gpuruntime.models.views.units import Lifecycle
from gpuruntime.operations.claim.plan import function_taken
from gpuruntime.operations.claim.protocol import ClaimAttempt, Creation
from gpuruntime.operations.claim.stock import StockClaims
from gpuruntime.operations.context import OperationContext
from gpuruntime.operations.deletion import Deletions
from gpuruntime.operations.errors import (
    OperationsError,
    UnitNotFoundError,
    WakeOffError,
    bounded,
)
from gpuruntime.operations.lookup.caches import FREE, FUNCTION, Cache
from gpuruntime.operations.lookup.scopes import EVERYTHING, Scope
from gpuruntime.operations.objects import UnitOrder, function_marks, unit_order
from gpuruntime.operations.storage_identity import uid_marks
from gpuruntime.operations.storages import Storages
from gpuruntime.operations.tombstones import Tombstones
from gpuruntime.operations.updates import changed, demand_match, rewrite
from gpuruntime.strict.structure import Problem, StrictError

# Attempts that run at once; the others wait in their order. If all ran, no unit of a burst would
# be created before all are claimed. At 25 ms an attempt these are 640 a second, twice as many as a
# replica can create.
MOST_AT_ONCE: Final = 16

_LAST_GENERATION: Final = Problem(
    field="access.generation",
    message=f"is {MOST_GENERATIONS}, which is the most: delete the unit to end its tickets",
)
_NO_STOCK: Final = Problem(
    field="serverless",
    message="cannot be cleared, since the unit was created with it and has claimed no stock: "
    "delete the unit, and create one without",
)


class Units:
    """The use cases on units, built before the informers of their caches run.

    Methods raise OperationsError, or StrictError if the cluster's own validation rejects a unit.
    """

    def __init__(
        self,
        context: OperationContext,
        *,
        storages: Storages,
        stock: StockClaims,
        tombstones: Tombstones,
        deletions: Deletions,
        attempts: SingleFlight,
    ) -> None:
        self._context = context
        self._storages = storages
        self._stock = stock
        self._tombstones = tombstones
        self._deletions = deletions
        self._attempts = attempts
        self._turns = KeyedLock[str]()
        self._places = asyncio.Semaphore(MOST_AT_ONCE)

    async def create(
        self,
        request: CreateUnit,
        scope: Scope = EVERYTHING,
        *,
        storage_uids: Mapping[str, str] | None = None,
    ) -> Creation:
        """Create the unit, even if the caller disconnects. A second caller gets a replay.

        For a worker, `storage_uids` has the storages that its function was given to mount.
        """
        namespace = self._context.options.namespaces.instance
        order = unit_order(request, namespace, self._context.now(), scope, storage_uids)
        return await self._attempts.run(request.operationID, lambda: self._attempt(order))

    async def get(
        self,
        name: str,
        lifecycle: Lifecycle = Lifecycle.INSTANCE,
        scope: Scope = EVERYTHING,
    ) -> GPUUnit:
        """Return a stock unit if the lifecycle is STOCK, else an active unit."""
        cache, key = self._place(name, lifecycle)
        cached = cache.store.get(key)
        if cached is not None and not self._deletions.has_deleted(cached):
            return _in_scope(cached, scope)
        async with self._bounded(f"reading unit {name}"):
            return _in_scope(await self._live(cache, key), scope)

    async def update(
        self,
        name: str,
        request: UpdateUnit,
        *,
        if_match: Collection[str] | None = None,
        scope: Scope = EVERYTHING,
    ) -> GPUUnit:
        """Update the spec; raise PreconditionFailedError unless the live ETag is in `if_match`."""
        cache, key = self._place(name, Lifecycle.INSTANCE)

        def edit(unit: GPUUnit) -> GPUUnit:
            demand_match(_in_scope(unit, scope), if_match, what="unit")
            edited = _marked(attrs.evolve(unit, spec=self._changed(unit, request)))
            return edited if request.storageMounts is UNSET else _mounting(edited, uids)

        async with self._bounded(f"update of unit {name}"), self._turn_of(request.serverless):
            mounts = request.storageMounts
            names = [mount.name for mount in mounts] if isinstance(mounts, tuple) else []
            uids = await self._storages.demand_all(names, scope)
            return await self._rewritten(cache, key, edit)

    async def revoke(self, name: str, scope: Scope = EVERYTHING) -> GPUUnit:
        """Raise the generation of the unit's access, which ends the tickets of before."""

        def raised(unit: GPUUnit) -> GPUUnit:
            access = _in_scope(unit, scope).spec.access
            if access.generation >= MOST_GENERATIONS:
                raise StrictError((_LAST_GENERATION,))
            access = attrs.evolve(access, generation=access.generation + 1)
            return attrs.evolve(unit, spec=attrs.evolve(unit.spec, access=access))

        return await self._edit(name, f"revocation of tickets of unit {name}", raised)

    async def wake(
        self, name: str, scope: Scope = EVERYTHING, *, uid: str = ""
    ) -> tuple[GPUUnit, bool]:
        """Resume the unit if its owner lets requests do so; with `uid`, only that incarnation.

        Return the unit, and whether it was suspended.
        """
        was_suspended = False

        def woken(unit: GPUUnit) -> GPUUnit:
            if uid not in ("", _in_scope(unit, scope).metadata.uid):
                raise _not_found(name)
            if not unit.spec.access.wake:
                raise WakeOffError(f"unit {name} is resumed by no request: its access.wake is off")
            nonlocal was_suspended
            was_suspended = unit.spec.suspended
            return attrs.evolve(unit, spec=attrs.evolve(unit.spec, suspended=False))

        return await self._edit(name, f"waking of unit {name}", woken), was_suspended

    async def delete(
        self,
        name: str,
        scope: Scope = EVERYTHING,
        *,
        if_match: Collection[str] | None = None,
    ) -> None:
        """Delete the unit, after its tombstone was written.

        A unit that lost its operation to another one gets none: that one carries it out.
        `if_match` is checked before any write. A second deletion raises UnitNotFoundError.
        """
        cache, key = self._place(name, Lifecycle.INSTANCE)
        async with self._bounded(f"deletion of unit {name}"):
            unit = _in_scope(await self._live(cache, key), scope)
            demand_match(unit, if_match, what="unit")
            has_lost = provenance.has_lost(unit)
            await self._deletions.delete(GPU_UNITS, unit, ends_operation=not has_lost)

    async def _attempt(self, order: UnitOrder) -> Creation:
        attempt = ClaimAttempt(
            order,
            self._context,
            storages=self._storages,
            stock=self._stock,
            tombstones=self._tombstones,
        )
        request, outcome = order.request, "stopped"
        started = loop_time()
        try:
            async with (
                self._bounded(f"operation {request.operationID}"),
                self._turn_of(request.serverless),
            ):
                creation = await self._in_its_place(attempt, request.specName)
            outcome = "replayed" if creation.is_replay else "created"
            return creation
        except OperationsError as error:
            outcome = error.code
            raise
        except StrictError:
            outcome = "invalid_request"
            raise
        finally:
            taken = loop_time() - started
            self._context.meter.count("claims_total", outcome=outcome)
            self._context.meter.observe("claim_seconds", taken, outcome=outcome)

    async def _in_its_place(self, attempt: ClaimAttempt, spec_name: str) -> Creation:
        """Run the attempt among MOST_AT_ONCE others, if there is stock for it.

        An attempt that knows of no stock waits for a list. It shares the list and takes no place.
        """
        async with self._places:
            if self._context.caches.stock.store.by_index(FREE, spec_name):
                return await attempt.run()
        return await attempt.run()

    def _changed(self, unit: GPUUnit, request: UpdateUnit) -> GPUUnitSpec:
        """Return the changed spec of the unit.

        A worker keeps working for its function, and only one unit declares a function.
        """
        spec = changed(unit.spec, _keeping_generation(unit, _for_worker(unit, request)))
        function = spec.serverless
        if function is None and _is_without_stock(unit):
            raise StrictError((_NO_STOCK,))
        if function is None or function.workerOf:
            return spec
        owners = self._context.caches.units.store.by_index(FUNCTION, function.requestID)
        if any(owner.metadata.uid != unit.metadata.uid for owner in owners):
            raise function_taken(function.requestID)
        return spec

    def _turn_of(self, function: Given[Serverless]) -> AbstractAsyncContextManager[None]:
        """Let declarations of a function run in turn; each finds the last one in the cache."""
        if not isinstance(function, Serverless) or function.workerOf:
            return nullcontext()
        return self._turns.of(function.requestID)

    async def _edit(self, name: str, what: str, edit: Callable[[GPUUnit], GPUUnit]) -> GPUUnit:
        cache, key = self._place(name, Lifecycle.INSTANCE)
        async with self._bounded(what):
            return await self._rewritten(cache, key, edit)

    async def _rewritten(
        self, cache: Cache[GPUUnit], key: Key, edit: Callable[[GPUUnit], GPUUnit]
    ) -> GPUUnit:
        try:
            updated = await rewrite(self._context.client, GPU_UNITS, key, edit)
        except NotFoundError as error:
            raise _not_found(key.name) from error
        cache.write_through(updated)
        return updated

    async def _live(self, cache: Cache[GPUUnit], key: Key) -> GPUUnit:
        try:
            unit = await self._context.client.get(GPU_UNITS, key)
        except NotFoundError as error:
            raise _not_found(key.name) from error
        cache.write_through(unit)
        return unit

    def _place(self, name: str, lifecycle: Lifecycle) -> tuple[Cache[GPUUnit], Key]:
        """Return the cache and the key; raise UnitNotFoundError if the name is not valid."""
        if not is_dns_label(name):
            raise _not_found(name)
        namespaces, caches = self._context.options.namespaces, self._context.caches
        if lifecycle is Lifecycle.STOCK:
            return caches.stock, Key(namespaces.stock, name)
        return caches.units, Key(namespaces.instance, name)

    def _bounded(self, what: str) -> AbstractAsyncContextManager[None]:
        return bounded(what, self._context.options.attempt_seconds)


def _marked(unit: GPUUnit) -> GPUUnit:
    """Return the unit with the label of the function that it declares now, and of no other."""
    others = {
        name: value for name, value in unit.metadata.labels.items() if name != labels.FUNCTION
    }
    marks = {**others, **function_marks(unit.spec)}
    return attrs.evolve(unit, metadata=attrs.evolve(unit.metadata, labels=marks))


def _mounting(unit: GPUUnit, uids: Mapping[str, str]) -> GPUUnit:
    """Return the unit with these uids recorded; later storages of the names do not count."""
    others = {
        name: value
        for name, value in unit.metadata.annotations.items()
        if name != labels.STORAGE_UIDS
    }
    annotations = {**others, **uid_marks(uids)}
    return attrs.evolve(unit, metadata=attrs.evolve(unit.metadata, annotations=annotations))


def _for_worker(unit: GPUUnit, request: UpdateUnit) -> UpdateUnit:
    now, given = unit.spec.serverless, request.serverless
    if now is None or now.workerOf is None or not isinstance(given, Serverless):
        return request
    return attrs.evolve(request, serverless=attrs.evolve(given, workerOf=now.workerOf))


def _keeping_generation(unit: GPUUnit, request: UpdateUnit) -> UpdateUnit:
    """Let an access without a generation keep the unit's, as the generation never falls."""
    if request.access is UNSET or (request.access and request.access.generation):
        return request
    access = request.access or Access()
    kept = attrs.evolve(access, generation=unit.spec.access.generation)
    return attrs.evolve(request, access=kept)


def _is_without_stock(unit: GPUUnit) -> bool:
    """Return whether an operation created the unit as a template that claimed no stock.

    A template that kubectl wrote does not count.
    """
    is_ours = unit.spec.is_function_template and bool(provenance.operation_of(unit))
    return is_ours and not provenance.source_uid_of(unit)


def _in_scope(unit: GPUUnit, scope: Scope) -> GPUUnit:
    if not scope.holds(unit):
        raise _not_found(unit.metadata.name)
    return unit


def _not_found(name: str) -> UnitNotFoundError:
    return UnitNotFoundError(f"unit {name} does not exist")
