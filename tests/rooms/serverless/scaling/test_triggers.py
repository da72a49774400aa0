"""Each source of an observation queues the function when it changes."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Hashable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import count
from random import Random
from typing import TypeVar

import attrs
import pytest

from gpuruntime.bus.connection import Connection
from gpuruntime.bus.credentials import ConnectionOptions
from gpuruntime.bus.messages import WorkerState
from gpuruntime.bus.streams import StreamOptions
from gpuruntime.concurrency.leadership import Leadership
from gpuruntime.embedded.apiserver.in_process_transport import InProcessTransport
from gpuruntime.informer.informer import Informer
from gpuruntime.kube.client import Client
from gpuruntime.meter import NullMeter
from gpuruntime.models.kinds.functions import Serverless, WorkerOf
from gpuruntime.models.kinds.units import (
    GPU_UNITS,
    GPUUnit,
    GPUUnitSpec,
    GPUUnitStatus,
    Timeline,
)
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import Key, ObjectMeta
from gpuruntime.operations.lookup.caches import STOCK_INDEXES, Cache, Handler
from gpuruntime.serverless.broker import BrokerLink
from gpuruntime.serverless.scaling.heartbeats import Heartbeats, LastHeartbeat, uids_in
from gpuruntime.serverless.scaling.history import Histories
from gpuruntime.serverless.scaling.observation import READS, Observer
from gpuruntime.serverless.scaling.plan import Observed
from gpuruntime.serverless.scaling.queue_depths import DepthPoller, Depths
from gpuruntime.serverless.scaling.triggers import FunctionTriggers
from gpuruntime.serverless.scaling.worker_plan import SILENT_SECONDS
from gpuruntime.serverless.scaling.workers import INDEXES
from gpuruntime.workqueue.queue import WorkQueue
from tests.options import configured
from tests.rooms.operations.cluster import INSTANCE, STOCK, Cluster
from tests.rooms.reconcilers.every_member import Change, Effects, asleep, changes_of
from tests.rooms.reconcilers.filled_caches import drained
from tests.rooms.serverless.scaling.scaled import NAMES, Scaled, composed

pytestmark = pytest.mark.looptime

T = TypeVar("T")

WHEN = datetime(2026, 1, 1, tzinfo=UTC)
FUNCTION = Serverless(requestID="echo")
WORKER_FUNCTION = attrs.evolve(FUNCTION, workerOf=WorkerOf(name="echo", uid="t"))
INDEX_READS = {
    "function": "units by function",
    "worker-of": "units by template",
    "serving": "units by service",
    "free": "stock by spec",
}


def unit(name: str, uid: str, function: Serverless | None = FUNCTION) -> GPUUnit:
    return GPUUnit(
        metadata=ObjectMeta(name=name, namespace=INSTANCE, uid=uid, generation=3),
        spec=GPUUnitSpec(specName="g1.1", image="v1", serverless=function),
    )


TEMPLATE, WORKER = unit("echo", "t"), unit("echo-w-1", "w", WORKER_FUNCTION)
FORMER = unit("former", "f", None)
STRAY = unit("former-w-1", "s", attrs.evolve(FUNCTION, workerOf=WorkerOf(name="former", uid="f")))


class Noted:
    """A cache that notes from which sources it is read."""

    def __init__(self, cache: Cache[GPUUnit], reads: set[str]) -> None:
        self._cache = cache
        self._reads = reads

    @property
    def store(self) -> "Noted":
        return self

    def get(self, key: Key) -> GPUUnit | None:
        self._reads.add("unit by name")
        return self._cache.store.get(key)

    def by_index(self, name: str, value: Hashable) -> Collection[GPUUnit]:
        self._reads.add(INDEX_READS.get(name, name))
        return self._cache.store.by_index(name, value)

    def values(self) -> Collection[GPUUnit]:
        self._reads.add("all units")
        return self._cache.store.values()

    def __len__(self) -> int:
        return len(self._cache.store)

    def add_handler(self, handler: Handler[GPUUnit]) -> None:
        raise NotImplementedError

    def write_through(self, written: GPUUnit) -> bool:
        raise NotImplementedError


class Scene:
    """Units and stock in the caches of a leader, and the observation of one function."""

    def __init__(self, *objects: GPUUnit, heard_at: float = 0.0) -> None:
        client = Client(InProcessTransport(Cluster().server))
        self._units, self._stock = (
            Informer(client, GPU_UNITS, rng=Random(1), indexes=indexes)
            for indexes in (INDEXES, STOCK_INDEXES)
        )
        self._versions = count(1)
        self.reads: set[str] = set()
        self._heard = LastHeartbeat(uid="w", state=WorkerState.READY, busy=0, at=heard_at)
        leadership, histories = Leadership(), Histories()
        self._queue: WorkQueue[str] = WorkQueue("function")
        nowhere = Connection(
            configured(ConnectionOptions, url="nats://nowhere", name="test"), rng=Random(1)
        )
        link = BrokerLink(nowhere, NAMES, rng=Random(1), streams=configured(StreamOptions))
        FunctionTriggers(
            self._queue,
            leadership,
            units=self._units,
            stock=self._stock,
            namespace=INSTANCE,
            depth_poller=DepthPoller(
                Depths(link.jetstream, NAMES, link.records),
                tell=lambda *_, **__: None,
                report_all=lambda: None,
            ),
            beats=Heartbeats(NAMES, uids_in(self._units, INSTANCE)),
            histories=histories,
        )
        histories.note_shortage("echo", "g1.1", is_short=True)
        for each in objects:
            self.put(each)
        leadership.begin()

    def put(self, value: GPUUnit) -> None:
        metadata = attrs.evolve(value.metadata, resourceVersion=str(next(self._versions)))
        assert self._informer(value).write_through(attrs.evolve(value, metadata=metadata))

    def remove(self, value: GPUUnit) -> None:
        self._informer(value)._writer._remove(value.metadata.key, next(self._versions))

    async def woken(self) -> Collection[Hashable]:
        return await drained(self._queue)

    async def effects(self) -> Effects | None:
        """Return all of an observation that its plan decides by; a change has to wake at once."""
        seen = self.observe()
        group = seen.owner.workers if seen.owner else None
        return Effects((group, seen.strays, seen.depth), None)

    def observe(self) -> Observed:
        """Observe as a new leader does, since a leader remembers earlier observations."""
        return Observer(
            units=Noted(self._units, self.reads),
            stock=Noted(self._stock, self.reads),
            depth_of=lambda _: self._read("depth", 1),
            beat_of=lambda *_: self._read("heartbeat", self._heard),
            receiving_since=lambda: self._read("session", self._heard.at),
            histories=Histories(),
            grace_seconds=0.0,
            meter=NullMeter(),
        ).observe("echo")

    def _informer(self, value: GPUUnit) -> Informer[GPUUnit]:
        return self._stock if value.metadata.namespace == STOCK else self._units

    def _read(self, source: str, value: T) -> T:
        self.reads.add(source)
        return value


async def test_an_observation_reads_nothing_but_the_declared_sources() -> None:
    scene = Scene(TEMPLATE, WORKER, FORMER, STRAY)
    scene.observe()
    assert scene.reads == set(READS)


def ready(reason: str, status: str = "False", *, seen: int = 3) -> GPUUnitStatus:
    condition = Condition(type="Ready", status=status, reason=reason, observedGeneration=seen)
    return GPUUnitStatus(conditions=(condition,))


STATUSES: dict[str, GPUUnitStatus] = {
    "new": GPUUnitStatus(),
    "ready": ready("DeploymentReady", "True"),
    "failed": ready("PodStartupFailed"),
    "unschedulable": ready("PodUnschedulable"),
    "invalid": ready("InvalidSpec"),
    "invalid earlier": ready("InvalidSpec", seen=2),
    "once ready": GPUUnitStatus(timeline=Timeline(readyAt=WHEN)),
}
STARTING = attrs.evolve(unit("p-1", "p", None), status=ready("DeploymentProgressing"))
IN_STOCK = attrs.evolve(STARTING, metadata=attrs.evolve(STARTING.metadata, namespace=STOCK))
SOURCES = {
    "units by function": TEMPLATE,
    "units by template": WORKER,
    "units by service": STRAY,
    "stock by spec": IN_STOCK,
}


def changes(value: GPUUnit) -> Iterator[Change]:
    """Yield the changes of a unit. It stays a worker of the same unit, with the same specName."""
    return changes_of(value, kept=(".spec.specName", ".spec.serverless.workerOf"))


async def asleep_with(status: GPUUnitStatus, heard_at: float) -> tuple[list[str], Counter[str]]:
    """Change all members of all units while each unit has this status."""
    units = {
        source: attrs.evolve(each, status=status) if each is not IN_STOCK else each
        for source, each in SOURCES.items()
    }
    scene = Scene(FORMER, *units.values(), heard_at=heard_at)
    await scene.woken()
    return await asleep(scene, "echo", units.items(), changes)


@pytest.mark.parametrize("status", STATUSES.values(), ids=STATUSES)
@pytest.mark.parametrize("heard_at", [0.0, -SILENT_SECONDS], ids=["heard", "silent"])
async def test_no_change_that_an_observation_shows_leaves_the_function_asleep(
    heard_at: float, status: GPUUnitStatus
) -> None:
    missed, mattered = await asleep_with(status, heard_at)
    assert missed == []
    assert set(mattered) == {*SOURCES}


@asynccontextmanager
async def at_rest() -> AsyncIterator[Scaled]:
    """Yield an activator that leads, with an empty queue and no task that reconciles."""
    cluster = Cluster()
    nowhere = Connection(
        configured(ConnectionOptions, url="nats://nowhere", name="test"), rng=Random(1)
    )
    link = BrokerLink(nowhere, NAMES, rng=Random(1), streams=configured(StreamOptions))
    async with composed(cluster, link) as made:
        made.declare(maxWorkers=9)
        made.declare("former", requestID="other")
        for name, owner in (("echo-w-1", "echo"), ("former-w-1", "former")):
            uid = made.unit(owner)["metadata"]["uid"]
            made.declare(name, requestID="echo", workerOf={"name": owner, "uid": uid})
        made.change("former", serverless=None)
        made.activator.leadership.begin()
        made.activator.depth_poller.adopt({"echo": 3})
        await asyncio.sleep(2)
        await woken(made)
        seen = made.activator.scaler.observer.observe("echo")
        made.activator.histories.note_shortage("echo", "g1.1", is_short=True)
        assert seen.owner is not None
        assert (len(seen.owner.workers.workers), len(seen.strays)) == (1, 1)
        yield made


async def woken(made: Scaled) -> set[str]:
    return await drained(*made.activator.queues)


async def change_template(made: Scaled) -> None:
    made.change("echo", suspended=True)


async def change_worker(made: Scaled) -> None:
    await made.make_ready("echo-w-1")


async def change_stray(made: Scaled) -> None:
    await made.make_ready("former-w-1")


async def add_stock(made: Scaled) -> None:
    made.cluster.add_stock(1)


async def read_depth(made: Scaled) -> None:
    await made.queue(echo=9)


async def hear(made: Scaled) -> None:
    await made.tell("echo-w-1", WorkerState.DRAINED)


async def reconnect(made: Scaled) -> None:
    made.activator.receiving_since = 1.0
    made.activator.depth_poller.forget()
    await made.queue()


WAKING: dict[str, Callable[[Scaled], Awaitable[None]]] = {
    "units by function": change_template,
    "units by template": change_worker,
    "units by service": change_stray,
    "stock by spec": add_stock,
    "depth": read_depth,
    "heartbeat": hear,
    "session": reconnect,
}


def test_every_source_wakes_or_says_why_not() -> None:
    silent = {source for source, wakes in READS.items() if wakes.startswith("none: ")}
    assert set(WAKING) == set(READS) - silent


@pytest.mark.parametrize("source", WAKING)
async def test_a_change_of_a_source_queues_the_function(source: str) -> None:
    async with at_rest() as made:
        await WAKING[source](made)
        await asyncio.sleep(2)
        assert "echo" in await woken(made)
