"""An activator on an embedded cluster, without a broker: tests supply the broker's messages."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from random import Random
from typing import Any

import attrs

from gpuruntime.bus.connection import Connection
from gpuruntime.bus.credentials import ConnectionOptions
from gpuruntime.bus.messages import Heartbeat, WorkerState, encode
from gpuruntime.bus.names import Names
from gpuruntime.bus.session import Message
from gpuruntime.bus.streams import StreamOptions
from gpuruntime.embedded.apiserver.in_process_transport import InProcessTransport
from gpuruntime.informer.informer import Informer
from gpuruntime.kube.client import Client
from gpuruntime.kube.watch import Selection
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.pools import STOCK_POOLS
from gpuruntime.models.kinds.storages import GPU_STORAGES
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.operations.context import OperationContext
from gpuruntime.operations.lookup.caches import (
    POOL_INDEXES,
    STOCK_INDEXES,
    STORAGE_INDEXES,
    Caches,
)
from gpuruntime.operations.operations import operations_of
from gpuruntime.serverless.broker import BrokerLink
from gpuruntime.serverless.scaling.activator import Activator, ActivatorOptions, recorder_of
from gpuruntime.serverless.scaling.workers import INDEXES
from gpuruntime.telemetry.metrics import Registry
from tests.faults import FaultyTransport
from tests.options import configured
from tests.rooms.operations.cluster import INSTANCE, OPTIONS, STOCK, Cluster, Document, clock

NAMES = Names("runtime")
TEMPLATE = GPU_UNITS.path(namespace=INSTANCE, name="echo")
SETTLED_SECONDS = 0.2
DEFAULTS = configured(ActivatorOptions)


@attrs.frozen(kw_only=True)
class Wire:
    """The delay of each request and answer, and of each event."""

    latency: Callable[[], float] = lambda: 0.0
    watch_lag: Callable[[], float] = lambda: 0.0


AT_ONCE = Wire()


@attrs.frozen(kw_only=True)
class Scaled:
    cluster: Cluster
    activator: Activator
    transport: FaultyTransport
    registry: Registry

    def declare(
        self,
        name: str = "echo",
        *,
        image: str = "v1",
        is_suspended: bool = False,
        **function: Any,
    ) -> Document:
        """Declare a function as kubectl would; it has the unit's name."""
        body = {
            "apiVersion": GPU_UNITS.api_version,
            "kind": "GPUUnit",
            "metadata": {"name": name},
            "spec": {
                "specName": "g1.1",
                "image": image,
                "suspended": is_suspended,
                "serverless": {"requestID": name, "maxWorkers": 4, **function},
            },
        }
        return self.cluster.call("POST", GPU_UNITS.path(namespace=INSTANCE), body)

    def change(self, name: str = "echo", **spec: Any) -> None:
        path = GPU_UNITS.path(namespace=INSTANCE, name=name)
        self.cluster.call("PATCH", path, {"spec": spec})

    def delete(self, name: str) -> None:
        self.cluster.call("DELETE", GPU_UNITS.path(namespace=INSTANCE, name=name))

    def let_consumer_stand(self, function: str = "echo") -> None:
        """Mark the consumer as existing, so that the missing broker is not asked repeatedly."""
        self.activator._consumers._standing.add(function)

    async def queue(self, settle: float = SETTLED_SECONDS, **depths: int) -> None:
        """Set the depth, as a reading would."""
        self.activator.depth_poller.adopt(depths)
        await asyncio.sleep(settle)

    async def wake(self, function: str) -> None:
        """Wake the function; its work is done before the next reading."""
        self.activator.triggers.on_wake(Message(NAMES.wake(function), b""))
        self.activator.depth_poller.adopt({}, woken={function})
        await asyncio.sleep(SETTLED_SECONDS)

    async def hold(self, seconds: float, **depths: int) -> None:
        """Set the depth again every two seconds, as readings do."""
        for _ in range(int(seconds / 2)):
            await self.queue(2.0, **depths)

    @property
    def workers(self) -> list[str]:
        return sorted(
            unit["metadata"]["name"]
            for unit in self.cluster.units
            if "workerOf" in unit["spec"].get("serverless", {})
        )

    @property
    def draining(self) -> list[str]:
        return [name for name in self.workers if labels.DRAINING in _marks(self.unit(name))]

    def unit(self, name: str) -> Document:
        return self.cluster.call("GET", GPU_UNITS.path(namespace=INSTANCE, name=name))

    def status(self, name: str = "echo") -> dict[str, Any]:
        status: dict[str, Any] = self.unit(name).get("status", {}).get("serverless", {})
        return status

    async def make_ready(self, *names: str) -> None:
        for name in names or self.workers:
            self.cluster.make_ready(INSTANCE, name)
        await asyncio.sleep(SETTLED_SECONDS)

    async def make_unready(self, name: str, reason: str, message: str = "") -> None:
        path = GPU_UNITS.path(namespace=INSTANCE, name=name, subresource="status")
        condition = {
            "type": "Ready",
            "status": "False",
            "reason": reason,
            "message": message,
            "lastTransitionTime": "2025-01-01T00:00:00Z",
        }
        self.cluster.call("PATCH", path, {"status": {"conditions": [condition]}})
        await asyncio.sleep(SETTLED_SECONDS)

    async def tell(self, worker: str, state: WorkerState, busy: int = 0) -> None:
        """Deliver a heartbeat as the worker would send it."""
        function = worker.rpartition("-w-")[0]
        uid = self.unit(worker)["metadata"]["uid"]
        beat = Heartbeat(
            workerName=worker, uid=uid, serverlessRequestID=function, state=state, busy=busy
        )
        self.activator.triggers.on_beat(Message(NAMES.beat(function, worker), encode(beat)))
        await asyncio.sleep(SETTLED_SECONDS)

    async def drained(self, *names: str) -> None:
        for name in names:
            await self.tell(name, WorkerState.DRAINED)
        await asyncio.sleep(1.5)


@asynccontextmanager
async def scaled(
    cluster: Cluster, *, seed: int = 1, wire: Wire = AT_ONCE
) -> AsyncIterator[Scaled]:
    """Run a leading activator with full caches and without a broker."""
    nowhere = Connection(
        configured(ConnectionOptions, url="nats://nowhere", name="test"), rng=Random(1)
    )
    queue = BrokerLink(nowhere, NAMES, rng=Random(seed), streams=configured(StreamOptions))
    async with (
        composed(cluster, queue, seed=seed, wire=wire) as made,
        asyncio.TaskGroup() as tasks,
    ):
        working = tasks.create_task(made.activator.controller.run())
        telling = tasks.create_task(made.activator.recorder.run())
        made.activator.leadership.begin()
        made.activator.depth_poller.adopt({})
        yield made
        working.cancel()
        telling.cancel()


@asynccontextmanager
async def composed(
    cluster: Cluster,
    queue: BrokerLink,
    *,
    seed: int = 1,
    options: ActivatorOptions = DEFAULTS,
    now: Callable[[], datetime] = clock,
    wire: Wire = AT_ONCE,
) -> AsyncIterator[Scaled]:
    """Yield an activator with full caches; the test runs the parts it needs."""
    async with asyncio.TaskGroup() as tasks:
        transport = FaultyTransport(
            InProcessTransport(cluster.server),
            tasks=tasks,
            latency=wire.latency,
            watch_lag=wire.watch_lag,
        )
        client, registry = Client(transport), Registry()
        units, caches, informers = _caches(client, seed)
        means = OperationContext(
            client=client,
            caches=caches,
            options=OPTIONS,
            now=now,
            rng=Random(seed),
            meter=registry,
        )
        activator = Activator(
            means,
            operations_of(means, tasks).units,
            queue,
            options,
            recorder=recorder_of(means),
            catch_up=units.catch_up,
        )
        runs = [tasks.create_task(each.run()) for each in informers]
        for informer in informers:
            await informer.synced.wait()
        transport.sent.clear()
        yield Scaled(cluster=cluster, activator=activator, transport=transport, registry=registry)
        for run in runs:
            run.cancel()


def _caches(client: Client, seed: int) -> tuple[Informer[Any], Caches, tuple[Informer[Any], ...]]:
    in_stock, in_use = Selection(namespace=STOCK), Selection(namespace=INSTANCE)
    table: tuple[tuple[Any, Selection, Any], ...] = (
        (GPU_UNITS, in_stock, STOCK_INDEXES),
        (GPU_UNITS, in_use, INDEXES),
        (STOCK_POOLS, in_stock, POOL_INDEXES),
        (GPU_STORAGES, in_use, STORAGE_INDEXES),
    )
    stock, units, pools, storages = informers = tuple(
        Informer(client, resource, rng=Random(seed), selection=selection, indexes=indexes)
        for resource, selection, indexes in table
    )
    return units, Caches(stock=stock, units=units, pools=pools, storages=storages), informers


def _marks(unit: Document) -> dict[str, str]:
    annotations: dict[str, str] = unit["metadata"].get("annotations", {})
    return annotations
