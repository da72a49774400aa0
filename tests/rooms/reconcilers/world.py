"""A simulated cluster: stock and units on the embedded server, Pods that run, and managers.

Everything happens in virtual time. `Life` plays the controllers behind the API server step by
step: Deployments create Pods, Pods become ready, and children are collected with their owners.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from random import Random
from typing import Any, TypeVar

import attrs

from gpuruntime.bus.user_jwts import Mint
from gpuruntime.embedded.apiserver.in_process_transport import InProcessTransport
from gpuruntime.kube.client import Client
from gpuruntime.kube.transport import Request, Response, Socket, StreamResponse
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.pools import STOCK_POOLS
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.cluster import CONFIG_MAPS, EVENTS
from gpuruntime.models.kubernetes.network import NETWORK_POLICIES, SERVICES
from gpuruntime.models.kubernetes.pods import PODS
from gpuruntime.models.kubernetes.timestamps import rfc3339
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS
from gpuruntime.reconcilers.activity.reader import ActivityOptions
from gpuruntime.reconcilers.informers import ReconcilerContext
from gpuruntime.reconcilers.options import UnitOptions
from gpuruntime.reconcilers.unit.start_plan import Term
from gpuruntime.reconcilers.wiring import Reconcilers
from tests.eventually import equals, eventually
from tests.faults import WRITES, FaultyTransport
from tests.options import configured
from tests.rooms.informer.harness import CountingMeter
from tests.rooms.operations.cluster import INSTANCE, STOCK, SYSTEM, Cluster, Document, clock

T = TypeVar("T")

STEP_SECONDS = 0.2
OPTIONS = configured(UnitOptions)
SETTLED = Term(age_seconds=0.0, is_clean=True)


class Ledger:
    """A record of every write that the server carried out, even if its answer was lost."""

    def __init__(self, inner: InProcessTransport) -> None:
        self._inner = inner
        self.done: list[str] = []

    async def request(self, request: Request) -> Response:
        response = await self._inner.request(request)
        if request.method in WRITES and response.status < 300:
            self.done.append(f"{request.method} {request.path}")
        return response

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        return self._inner.stream(request)

    def socket(
        self, request: Request, protocol: str
    ) -> AbstractAsyncContextManager[Socket | Response]:
        return self._inner.socket(request, protocol)


class World(Cluster):
    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger(InProcessTransport(self.server))
        # The kubelet's container states by unit name.
        self.troubles: dict[str, Document] = {}
        # The scheduler's message about a unit's Pod that no node takes.
        self.unschedulable: dict[str, str] = {}
        # The node of a unit's new Pods; node-1 by default.
        self.nodes: dict[str, str] = {}

    def add_pool(self, name: str = "p", *, refill: str = "Always", **spec: Any) -> Document:
        body = {
            "apiVersion": STOCK_POOLS.api_version,
            "kind": "StockPool",
            "metadata": {"name": name, "annotations": {labels.OPERATION_ID: f"make-{name}"}},
            "spec": {"specName": "g1.1", "gpu": 1, "replicas": 1, "refill": refill, **spec},
        }
        return self.call("POST", STOCK_POOLS.path(namespace=STOCK), body)

    def add_unit(self, name: str, *, annotations: Document | None = None, **spec: Any) -> Document:
        """Create a unit as kubectl does, without a claim."""
        body = {
            "apiVersion": GPU_UNITS.api_version,
            "kind": "GPUUnit",
            "metadata": {"name": name, "annotations": annotations or {}},
            "spec": {"specName": "g1.1", "image": "python:3.12", **spec},
        }
        return self.call("POST", GPU_UNITS.path(namespace=INSTANCE), body)

    def change(self, name: str, **spec: Any) -> Document:
        path = GPU_UNITS.path(namespace=INSTANCE, name=name)
        return self.call("PATCH", path, {"spec": spec})

    def claim_by_hand(self, stock: str, unit: str, *, operation: str, **more: str) -> Document:
        marks = {
            labels.CLAIMED_BY: f"{INSTANCE}/{unit}",
            labels.OPERATION_ID: operation,
            labels.REQUEST_HASH: "hash",
            labels.CLAIMED_AT: "2025-01-01T00:00:00.000000Z",
            labels.CLAIM_ATTEMPT: "attempt",
            **more,
        }
        path = GPU_UNITS.path(namespace=STOCK, name=stock)
        return self.call("PATCH", path, {"metadata": {"annotations": marks}})

    def provenance(self, stock: str, *, operation: str) -> Document:
        """Return the annotations of a unit that took the stock."""
        return {
            labels.OPERATION_ID: operation,
            labels.REQUEST_HASH: "hash",
            labels.SOURCE_STOCK: f"{STOCK}/{stock}",
            labels.SOURCE_STOCK_UID: self.stock(stock)["metadata"]["uid"],
        }

    def unit(self, name: str) -> Document:
        return self.call("GET", GPU_UNITS.path(namespace=INSTANCE, name=name))

    def stock(self, name: str) -> Document:
        return self.call("GET", GPU_UNITS.path(namespace=STOCK, name=name))

    def pool(self, name: str = "p") -> Document:
        return self.call("GET", STOCK_POOLS.path(namespace=STOCK, name=name))

    def deployment(self, unit: str, namespace: str = INSTANCE) -> Document:
        return self.call("GET", DEPLOYMENTS.path(namespace=namespace, name=f"unit-{unit}"))

    def names(self, resource: Any, namespace: str) -> list[str]:
        return [each["metadata"]["name"] for each in self.objects(resource, namespace)]

    def told(self, name: str, namespace: str = INSTANCE) -> list[str]:
        """Return the Events about an object, each as its reason and its message."""
        return [
            f"{each['reason']}: {each['message']}"
            for each in self.objects(EVENTS, namespace)
            if each["involvedObject"]["name"] == name
        ]

    @property
    def stock_names(self) -> list[str]:
        return self.names(GPU_UNITS, STOCK)

    def delete(self, resource: Any, namespace: str, name: str) -> None:
        self.call("DELETE", resource.path(namespace=namespace, name=name))

    def made(self, resource: Any) -> Counter[str]:
        """Return how often each kind of write was done to objects of the kind."""
        return Counter(
            each.split()[0] for each in self.ledger.done if f"/{resource.plural}" in each
        )

    def end_state(self) -> dict[str, Any]:
        """Return all objects, without the values that differ in every run."""
        return {
            "units": {each["metadata"]["name"]: phase_of(each) for each in self.units},
            "stock": {
                each["metadata"]["name"]: phase_of(each) for each in self.objects(GPU_UNITS, STOCK)
            },
            "pools": [
                {name: each["status"][name] for name in ("phase", "seeded", "consumed", "claimed")}
                for each in self.objects(STOCK_POOLS, STOCK)
            ],
            "deployments": self.names(DEPLOYMENTS, STOCK) + self.names(DEPLOYMENTS, INSTANCE),
            "services": self.names(SERVICES, INSTANCE),
            "policies": self.names(NETWORK_POLICIES, INSTANCE),
            "tombstones": self.names(CONFIG_MAPS, SYSTEM),
        }


def phase_of(document: Document) -> str:
    phase: str = document.get("status", {}).get("phase", "")
    return phase


def reason_of(document: Document) -> str:
    conditions = document.get("status", {}).get("conditions", [{}])
    reason: str = conditions[0].get("reason", "")
    return reason


def message_of(document: Document) -> str:
    message: str = document["status"]["conditions"][0]["message"]
    return message


class Life:
    """Deployment controller, scheduler, kubelet and garbage collector, one step every 200 ms."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._revisions: dict[str, str] = {}

    async def run(self) -> None:
        while True:
            await asyncio.sleep(STEP_SECONDS)
            for namespace in (STOCK, INSTANCE):
                self.step(namespace)

    def step(self, namespace: str) -> None:
        world = self._world
        owners = {each["metadata"]["uid"] for each in world.objects(GPU_UNITS, namespace)}
        for resource in (DEPLOYMENTS, SERVICES, NETWORK_POLICIES, GPU_UNITS):
            for child in world.objects(resource, namespace):
                is_units = (
                    child["metadata"].get("ownerReferences", [{}])[0].get("kind") == "GPUUnit"
                )
                if is_units and owner_of(child) not in owners:
                    world.delete(resource, namespace, child["metadata"]["name"])
        deployments = world.objects(DEPLOYMENTS, namespace)
        living = {each["metadata"]["uid"] for each in deployments}
        pods = {owner_of(pod): pod for pod in world.objects(PODS, namespace)}
        for owner, pod in pods.items():
            if owner not in living:
                self._end(pod)
        for deployment in deployments:
            self._move(deployment, pods.get(deployment["metadata"]["uid"]))

    def _move(self, deployment: Document, pod: Document | None) -> None:
        """Make one change at a time, as the parts of a cluster do."""
        wants_pod = deployment["spec"]["replicas"] == 1
        template = repr(deployment["spec"]["template"])
        is_ready = False
        if pod is not None and (not wants_pod or pod["metadata"]["annotations"]["of"] != template):
            self._end(pod)
            pod = None
        elif pod is None and wants_pod:
            pod = self._begin(deployment, template)
        elif pod is not None:
            is_ready = (
                phase_of(pod) == "Running" and pod["status"]["conditions"][1]["status"] == "True"
            )
            self._advance(pod)
        count = int(pod is not None)
        status = {
            "observedGeneration": deployment["metadata"]["generation"],
            "replicas": count,
            "updatedReplicas": count,
            "readyReplicas": int(is_ready),
            "availableReplicas": int(is_ready),
        }
        if deployment.get("status", {}) != status:
            self._status(DEPLOYMENTS, deployment, status)

    def _begin(self, deployment: Document, template: str) -> Document:
        meta, pod = deployment["metadata"], deployment["spec"]["template"]
        unit = pod["metadata"]["labels"][labels.UNIT]
        taken = self._world.names(PODS, meta["namespace"])
        free = (f"{meta['name']}-{number}" for number in count(meta["generation"]))
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": next(name for name in free if name not in taken),
                "labels": pod["metadata"]["labels"],
                "annotations": {"of": template},
                "ownerReferences": [
                    {
                        "apiVersion": "apps/v1",
                        "kind": "Deployment",
                        "name": meta["name"],
                        "uid": meta["uid"],
                        "controller": True,
                    }
                ],
            },
            "spec": {**pod["spec"], "nodeName": self._world.nodes.get(unit, "node-1")},
        }
        return self._world.call("POST", PODS.path(namespace=meta["namespace"]), body)

    def _advance(self, pod: Document) -> None:
        unit = pod["metadata"]["labels"][labels.UNIT]
        words = self._world.unschedulable.get(unit)
        if words is not None:
            if "conditions" not in pod["status"]:
                refusal = {"reason": "Unschedulable", "message": words}
                told = {**condition("PodScheduled", "False"), **refusal}
                self._status(PODS, pod, {"phase": "Pending", "conditions": [told]})
            return
        containers = self._world.troubles.get(unit)
        if containers is not None:
            status = {"phase": "Pending", "containerStatuses": [containers]}
            # The server adds the members that are not given.
            (shown,) = pod["status"].get("containerStatuses", [{}])
            if not containers.items() <= shown.items():
                self._status(PODS, pod, {**status, "conditions": [condition("PodScheduled")]})
        elif phase_of(pod) != "Running":
            running = {"name": "runtime", "state": {"running": {"startedAt": rfc3339(clock())}}}
            conditions = [condition("PodScheduled"), condition("Ready", "False")]
            status = {"phase": "Running", "containerStatuses": [running], "conditions": conditions}
            self._status(PODS, pod, status)
        elif pod["status"]["conditions"][1]["status"] != "True":
            conditions = [condition("PodScheduled"), condition("Ready")]
            self._status(PODS, pod, {**pod["status"], "conditions": conditions})

    def _end(self, pod: Document) -> None:
        self._world.call("DELETE", pod_path(pod), {"gracePeriodSeconds": 0})

    def _status(self, resource: Any, held: Document, status: Document) -> None:
        meta = held["metadata"]
        path = resource.path(namespace=meta["namespace"], name=meta["name"], subresource="status")
        self._world.call("PATCH", path, {"status": status})


def owner_of(document: Document) -> str:
    owners = document["metadata"].get("ownerReferences", [{}])
    uid: str = owners[0].get("uid", "")
    return uid


def pod_path(pod: Document) -> str:
    return PODS.path(namespace=pod["metadata"]["namespace"], name=pod["metadata"]["name"])


def condition(type_: str, status: str = "True") -> Document:
    return {"type": type_, "status": status, "lastTransitionTime": rfc3339(clock())}


@attrs.frozen(kw_only=True)
class Manager:
    transport: FaultyTransport
    reconcilers: Reconcilers
    meter: CountingMeter

    def reconciles(self, controller: str) -> int:
        begin = f"reconciles_total {controller} "
        return int(
            sum(self.meter.sums[each] for each in self.meter.sums if each.startswith(begin))
        )


@asynccontextmanager
async def managing(
    world: World,
    *,
    term: Callable[[], Term] = lambda: SETTLED,
    prepare: Callable[[FaultyTransport], None] = lambda _: None,
    options: UnitOptions = OPTIONS,
    mint: Mint | None = None,
    retention_seconds: float = 86_400.0,
    turn: asyncio.Event | None = None,
    activity: ActivityOptions | None = None,
) -> AsyncIterator[Manager]:
    """Run a leader with synced caches during the block; it ends as if killed.

    With a `turn`, it is a standby until that event is set.
    """
    async with asyncio.TaskGroup() as tasks:
        transport = FaultyTransport(world.ledger, tasks=tasks, latency=lambda: 0.001)
        meter = CountingMeter()
        reconcilers = Reconcilers(
            ReconcilerContext(
                client=Client(transport),
                options=options,
                retention_seconds=retention_seconds,
                term=term,
                now=clock,
                rng=Random(3),
                meter=meter,
                mint=mint,
                activity=activity,
            )
        )
        running = [tasks.create_task(reconcilers.run_caches())]
        for informer in reconcilers.informers.all():
            await informer.synced.wait()
        prepare(transport)
        running.append(tasks.create_task(_lead(reconcilers, turn)))
        yield Manager(transport=transport, reconcilers=reconcilers, meter=meter)
        transport.cut()
        for task in running:
            task.cancel()


async def _lead(reconcilers: Reconcilers, turn: asyncio.Event | None) -> None:
    if turn is not None:
        await turn.wait()
    await reconcilers.run()


@asynccontextmanager
async def living(world: World) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as tasks:
        life = tasks.create_task(Life(world).run())
        yield
        life.cancel()


async def until(
    look: Callable[[], T], holds: Callable[[T], object] = bool, *, seconds: float = 300.0
) -> None:
    """Poll at each step of the world, for that many virtual seconds."""
    await eventually(look, holds, within_seconds=seconds, poll_seconds=STEP_SECONDS)


async def becomes(world: World, unit: str, phase: str, *, seconds: float = 300.0) -> None:
    await until(lambda: phase_of(world.unit(unit)), equals(phase), seconds=seconds)


async def quiet(world: World, *, seconds: float = 5.0) -> None:
    """Return once no client has written through a ledger for that many seconds."""
    count = -1
    while count != len(world.ledger.done):
        count = len(world.ledger.done)
        await asyncio.sleep(seconds)
