"""Each source of an observation queues the function when it changes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Hashable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from random import Random
from typing import Any

import attrs
import pytest

from gpuruntime.bus.connection import Connection
from gpuruntime.bus.credentials import ConnectionOptions
from gpuruntime.bus.messages import WorkerState
from gpuruntime.bus.streams import StreamOptions
from gpuruntime.meter import NullMeter
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.functions import Framework, Serverless, ServerlessStatus, WorkerOf
from gpuruntime.models.kinds.templates import Template
from gpuruntime.models.kinds.units import (
    Access,
    GPUUnit,
    GPUUnitSpec,
    GPUUnitStatus,
    StorageMount,
    Timeline,
)
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import Key, ObjectMeta
from gpuruntime.operations.lookup.caches import Handler
from gpuruntime.serverless.broker import BrokerLink
from gpuruntime.serverless.scaling.heartbeats import LastHeartbeat
from gpuruntime.serverless.scaling.history import Histories
from gpuruntime.serverless.scaling.observation import (
    READS,
    Observer,
    template_state,
    worker_state,
)
from gpuruntime.serverless.scaling.plan import Observed
from gpuruntime.serverless.scaling.worker_plan import SILENT_SECONDS
from gpuruntime.serverless.scaling.workers import INDEXES
from tests.options import configured
from tests.rooms.operations.cluster import INSTANCE, Cluster
from tests.rooms.serverless.scaling.scaled import NAMES, Scaled, composed

pytestmark = pytest.mark.looptime

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


@attrs.frozen
class Objects:
    """A cache of some units; it notes what is read."""

    units: tuple[GPUUnit, ...] = ()
    reads: set[str] = attrs.field(factory=set)

    @property
    def store(self) -> "Objects":
        return self

    def get(self, key: Key) -> GPUUnit | None:
        self.reads.add("unit by name")
        return next((each for each in self.units if each.metadata.key == key), None)

    def by_index(self, name: str, value: Hashable) -> Collection[GPUUnit]:
        self.reads.add(INDEX_READS.get(name, name))
        index = INDEXES.get(name)
        return [each for each in self.units if index and value in tuple(index(each))]

    def values(self) -> Collection[GPUUnit]:
        self.reads.add("all units")
        return self.units

    def __len__(self) -> int:
        return len(self.units)

    def add_handler(self, handler: Handler[GPUUnit]) -> None:
        raise NotImplementedError

    def write_through(self, written: GPUUnit) -> bool:
        raise NotImplementedError


async def observed(
    *units: GPUUnit, reads: set[str] | None = None, heard_at: float = 0.0
) -> Observed:
    notes = set() if reads is None else reads
    heard = LastHeartbeat(uid="w", state=WorkerState.READY, busy=0, at=heard_at)
    answers: dict[str, Any] = {"depth": 1, "heartbeat": heard, "session": heard_at}

    def read(source: str) -> Any:
        notes.add(source)
        return answers[source]

    observer = Observer(
        units=Objects(units, notes),
        stock=Objects((), notes),
        depth_of=lambda _: read("depth"),
        beat_of=lambda *_: read("heartbeat"),
        receiving_since=lambda: read("session"),
        histories=Histories(),
        grace_seconds=0.0,
        meter=NullMeter(),
    )
    return observer.observe("echo")


def decisive(seen: Observed) -> object:
    """Return all of an observation that its plan decides by."""
    group = seen.owner.workers if seen.owner else None
    return group, seen.strays, seen.depth


async def test_an_observation_reads_nothing_but_the_declared_sources() -> None:
    reads: set[str] = set()
    await observed(TEMPLATE, WORKER, FORMER, STRAY, reads=reads)
    assert reads == set(READS)


def ready(
    reason: str, status: str = "False", generation: int = 3, message: str = ""
) -> dict[str, Any]:
    condition = Condition(
        type="Ready",
        status=status,
        reason=reason,
        message=message,
        observedGeneration=generation,
    )
    return {"conditions": (condition,)}


METADATA: dict[str, Any] = {
    "a deletion": {"deletionTimestamp": WHEN},
    "a drain mark": {"annotations": {labels.DRAINING: "then"}},
    "storages": {"annotations": {labels.STORAGE_UIDS: "data=1"}},
    "an unknown annotation": {"annotations": {"x": "y"}},
    "a tenant": {"labels": {labels.TENANT: "t"}},
    "a version": {"resourceVersion": "9"},
}
SPEC: dict[str, Any] = {
    "image": "v2",
    "cpu": "2",
    "memory": "2Gi",
    "gpu": 2,
    "gpuProduct": "A",
    "template": Template(args=("x",)),
    "access": Access(primaryPort="http"),
    "storageMounts": (StorageMount(name="data", mountPath="/data"),),
    "suspended": True,
}
LIMITS: dict[str, Any] = {
    "minAvailableCount": 1,
    "maxWorkers": 2,
    "idleTimeoutSeconds": 3,
    "concurrency": 4,
    "timeoutSeconds": 5,
    "maxAttempts": 6,
    "update": "Recreate",
    "framework": Framework(invokePath="/other"),
}
STATUS: dict[str, Any] = {
    "ready": ready("DeploymentReady", "True"),
    "failed": ready("PodStartupFailed"),
    "failed in other words": ready("PodStartupFailed", message="other words"),
    "unschedulable": ready("PodUnschedulable"),
    "invalid": ready("InvalidSpec"),
    "invalid earlier": ready("InvalidSpec", generation=2),
    "once ready": {"timeline": Timeline(readyAt=WHEN)},
    "scheduled": {"timeline": Timeline(scheduledAt=WHEN)},
    "on a node": {"nodeName": "n", "readyReplicas": 1, "observedGeneration": 3},
    "reported": {"serverless": ServerlessStatus(depth=1)},
}


def changed(before: GPUUnit) -> dict[str, GPUUnit]:
    """Return the unit after each change that a user, the manager or the activator may make."""

    def respecified(spec: dict[str, Any]) -> GPUUnit:
        metadata = attrs.evolve(before.metadata, generation=before.metadata.generation + 1)
        return attrs.evolve(before, metadata=metadata, spec=attrs.evolve(before.spec, **spec))

    function = before.spec.serverless or FUNCTION
    return {
        **{
            name: attrs.evolve(before, metadata=attrs.evolve(before.metadata, **change))
            for name, change in METADATA.items()
        },
        **{
            name: attrs.evolve(before, status=attrs.evolve(before.status, **change))
            for name, change in STATUS.items()
        },
        **{name: respecified({name: value}) for name, value in SPEC.items()},
        **{
            name: respecified({"serverless": attrs.evolve(function, **{name: value})})
            for name, value in LIMITS.items()
        },
        "another function": respecified({"serverless": attrs.evolve(function, requestID="other")}),
        "no function": respecified({"serverless": None}),
    }


def test_the_changes_cover_every_field_of_a_spec() -> None:
    fixed = {"specName", "serverless", "requestID", "workerOf"}
    fields = {each.name for kind in (GPUUnitSpec, Serverless) for each in attrs.fields(kind)}
    assert {*SPEC, *LIMITS} == fields - fixed
    assert {each.name for each in attrs.fields(GPUUnitStatus)} - {"phase"} <= {
        *STATUS["on a node"],
        "conditions",
        "timeline",
        "serverless",
        "serviceName",
        "accessURL",
    }


CHANGES = tuple(changed(TEMPLATE))


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("start", ["new", "invalid", "invalid earlier", "once ready", "failed"])
@pytest.mark.parametrize("heard_at", [0.0, -SILENT_SECONDS], ids=["heard", "silent"])
async def test_each_change_that_an_observation_shows_wakes(
    heard_at: float, start: str, change: str
) -> None:
    template, worker = changed(TEMPLATE).get(start, TEMPLATE), changed(WORKER).get(start, WORKER)
    other_template, other_worker = changed(template)[change], changed(worker)[change]
    before = decisive(await observed(template, worker, heard_at=heard_at))
    if decisive(await observed(other_template, worker, heard_at=heard_at)) != before:
        assert template_state(template) != template_state(other_template)
    if decisive(await observed(template, other_worker, heard_at=heard_at)) != before:
        assert worker_state(worker) != worker_state(other_worker)


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
    [queue] = made.activator.queues
    keys = set()
    while queue.depth:
        key = await queue.get()
        queue.done(key)
        keys.add(key)
    return keys


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
