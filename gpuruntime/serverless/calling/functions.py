"""Functions for callers: find one by name, and list them with their work and workers."""

from collections.abc import Callable, Iterable
from datetime import datetime
from itertools import islice
from typing import Final

import attrs

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.kube.client import Client
from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.functions import Serverless
from gpuruntime.models.kinds.units import GPU_UNITS, GPUUnit
from gpuruntime.models.kubernetes.names import label_value_of
from gpuruntime.operations.errors import bounded
from gpuruntime.operations.lookup.caches import FUNCTION, Cache
from gpuruntime.operations.lookup.ordering import Place
from gpuruntime.operations.lookup.repository import owner_of
from gpuruntime.operations.lookup.scopes import EVERYTHING, Scope, ScopedCache, tenant_of
from gpuruntime.operations.lookup.shared_reads import SharedReads, list_all
from gpuruntime.serverless.broker import BrokerLink
from gpuruntime.serverless.errors import FunctionNotFoundError, bus_translated
from gpuruntime.serverless.scaling.heartbeats import Heartbeats
from gpuruntime.serverless.scaling.queue_depths import Depths
from gpuruntime.serverless.scaling.worker_plan import SILENT_SECONDS

LOOK_SECONDS: Final = 10.0


@attrs.frozen(slots=True)
class Declared:
    """A function's declaration, and the uid and tenant of the unit that declares it."""

    function: Serverless
    uid: str
    tenant: str


@attrs.frozen(kw_only=True, slots=True)
class Function:
    """`running` invocations are held by workers as last reported; all others are `queued`."""

    declared: Serverless
    unit: GPUUnit
    queued: int
    running: int
    oldest_wait_seconds: float


@attrs.frozen(kw_only=True, slots=True)
class FunctionPage:
    """`next` is the name after which the next page begins; empty on the last page."""

    functions: tuple[Function, ...]
    next: str


class Functions:
    """Create it before the informer of its cache runs."""

    def __init__(
        self,
        client: Client,
        units: Cache[GPUUnit],
        queue: BrokerLink,
        beats: Heartbeats,
        *,
        namespace: str,
        now: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._units = units
        self._queue = queue
        self._depths = Depths(queue.jetstream, queue.names, queue.records)
        self._beats = beats
        self._namespace = namespace
        self._now = now
        self._live = SharedReads(self._read_live)
        self._ordered: ScopedCache[GPUUnit] = ScopedCache(units, _place_of)

    async def find(self, name: str) -> Declared:
        """Return the function; on a cache miss, read the cluster, since another replica may create
        it.

        That read finds only templates created through the API, since they have the label. A
        template created with kubectl is found once the cache has it.
        """
        if found := _living(self._units.store.by_index(FUNCTION, name)):
            return found
        async with bounded(f"looking for function {name}", LOOK_SECONDS):
            live = await self._live.get(name)
        if found := _living(live):
            return found
        raise missing_function(name)

    async def get(self, name: str, scope: Scope = EVERYTHING) -> Function:
        """Return the function with its work, or raise FunctionNotFoundError."""
        if not await self.is_of(scope, name):
            raise missing_function(name)
        owner = owner_of(self._units.store.by_index(FUNCTION, name))
        if owner is None:
            raise missing_function(name)
        with bus_translated():
            self._queue.demand()
            return await self._described(owner, await self._depths.read())

    async def is_of(self, scope: Scope, name: str) -> bool:
        """Return whether the scope holds the function's owner; False if there is no owner."""
        owner = owner_of(self._units.store.by_index(FUNCTION, name))
        if owner is None:
            async with bounded(f"looking for function {name}", LOOK_SECONDS):
                owner = owner_of(await self._live.get(name))
        return owner is not None and scope.holds(owner)

    async def page(self, *, limit: int, after: str, scope: Scope = EVERYTHING) -> FunctionPage:
        """Return functions sorted by name; details are read only for those of this page."""
        owners = filter(self._is_owner, self._ordered.after((after,) if after else (), scope))
        units = list(islice(owners, limit + 1))
        kept = units[:limit]
        with bus_translated():
            self._queue.demand()
            depths = await self._depths.read() if kept else {}
            functions = [await self._described(unit, depths) for unit in kept]
        return FunctionPage(
            functions=tuple(functions),
            next=functions[-1].declared.requestID if len(units) > limit else "",
        )

    def _is_owner(self, template: GPUUnit) -> bool:
        name = _function_of(template).requestID
        return owner_of(self._units.store.by_index(FUNCTION, name)) == template

    async def _described(self, unit: GPUUnit, depths: dict[str, int]) -> Function:
        declared = _function_of(unit)
        name = declared.requestID
        depth = depths.get(name, 0)
        running, oldest_wait_seconds = 0, 0.0
        if depth:
            heard_since = loop_time() - SILENT_SECONDS
            busy = self._beats.busy(name, since=heard_since)
            backlog = await self._depths.backlog(name, busy=busy)
            running = min(backlog.running, depth)
            oldest_wait_seconds = backlog.oldest_wait_seconds(self._now())
        return Function(
            declared=declared,
            unit=unit,
            queued=depth - running,
            running=running,
            oldest_wait_seconds=oldest_wait_seconds,
        )

    async def _read_live(self, name: str) -> list[GPUUnit]:
        selector = f"{labels.FUNCTION}={label_value_of(name)}"
        found = await list_all(
            self._client, GPU_UNITS, namespace=self._namespace, label_selector=selector
        )
        for unit in found:
            self._units.write_through(unit)
        return [unit for unit in found if _declares(unit, name)]


def missing_function(name: str) -> FunctionNotFoundError:
    return FunctionNotFoundError(
        f"function {name} does not exist: create a unit whose serverless.requestID names it"
    )


def _living(templates: Iterable[GPUUnit]) -> Declared | None:
    """Return the owner's declaration, or None if the owner is missing or terminating."""
    owner = owner_of(templates)
    if owner is None or provenance.is_terminating(owner):
        return None
    return Declared(_function_of(owner), owner.metadata.uid, tenant_of(owner))


def _declares(unit: GPUUnit, name: str) -> bool:
    return unit.spec.is_function_template and _function_of(unit).requestID == name


def _function_of(template: GPUUnit) -> Serverless:
    function = template.spec.serverless
    if function is None:
        raise FunctionNotFoundError(f"unit {template.metadata.name} declares no function")
    return function


def _place_of(unit: GPUUnit) -> Place | None:
    if not unit.spec.is_function_template:
        return None
    return (_function_of(unit).requestID, unit.metadata.name)
