"""An embedded cluster with stock, and replicas of the API that use it."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import attrs

from gpuruntime.embedded.apiserver.in_process_transport import InProcessTransport
from gpuruntime.embedded.apiserver.server import Server
from gpuruntime.informer.informer import Informer
from gpuruntime.kube.client import Client
from gpuruntime.kube.transport import JSON, MERGE_PATCH, Request
from gpuruntime.kube.watch import Selection
from gpuruntime.meter import Meter, NullMeter
from gpuruntime.models.definitions.crds import crds
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.pools import STOCK_POOLS, StockPool
from gpuruntime.models.kinds.storages import GPU_STORAGES, GPUStorage
from gpuruntime.models.kinds.units import GPU_UNITS, GPUUnit
from gpuruntime.models.kubernetes.resources import Resource
from gpuruntime.models.requests.units import CreateUnit
from gpuruntime.operations.context import OperationContext
from gpuruntime.operations.errors import OperationsError
from gpuruntime.operations.lookup.caches import (
    POOL_INDEXES,
    STOCK_INDEXES,
    STORAGE_INDEXES,
    UNIT_INDEXES,
    Caches,
)
from gpuruntime.operations.operations import Operations, operations_of
from gpuruntime.operations.options import Namespaces, Options
from gpuruntime.operations.requests import parse_create_unit
from tests.faults import FaultyTransport
from tests.options import configured

Document = dict[str, Any]

NAMESPACES = configured(Namespaces)
OPTIONS = configured(Options)
STOCK, INSTANCE, SYSTEM = NAMESPACES.stock, NAMESPACES.instance, NAMESPACES.system
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
START = datetime(2025, 1, 1, tzinfo=UTC)
READY = {
    "type": "Ready",
    "status": "True",
    "reason": "DeploymentReady",
    "message": "",
    "lastTransitionTime": "2025-01-01T00:00:00Z",
}


def clock() -> datetime:
    """Return the wall clock of a test, which follows the loop's virtual time."""
    return START + timedelta(seconds=asyncio.get_running_loop().time())


class Cluster:
    def __init__(self, seed: int = 7) -> None:
        self.server = Server(now=clock, rng=Random(seed))
        for definition in crds():
            self.call("POST", DEFINITIONS, definition)
        for name in (STOCK, INSTANCE, SYSTEM):
            self.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})

    def call(self, method: str, path: str, body: object = None) -> Document:
        answer = self.server.handle(
            Request(
                method=method,
                path=path,
                body=None if body is None else json.dumps(body).encode(),
                content_type=MERGE_PATCH if method == "PATCH" else JSON,
            )
        )
        document: Document = json.loads(answer.body)
        assert answer.status < 300, document
        return document

    def add_stock(self, count: int = 1, *, pool: str = "p", **spec: Any) -> None:
        first = len(self.objects(GPU_UNITS, STOCK)) + 1
        for ordinal in range(first, first + count):
            self.add_stock_unit(f"{pool}-{ordinal}", pool=pool, **spec)

    def add_stock_unit(
        self, name: str, *, pool: str = "p", is_ready: bool = True, **spec: object
    ) -> Document:
        spec = {"specName": "g1.1", "memory": "16Gi", "gpu": 1, **spec}
        marks = {labels.SPEC: spec["specName"], labels.POOL: pool}
        body = {
            "apiVersion": GPU_UNITS.api_version,
            "kind": "GPUUnit",
            "metadata": {"name": name, "labels": marks},
            "spec": spec,
        }
        made = self.call("POST", GPU_UNITS.path(namespace=STOCK), body)
        return self.make_ready(STOCK, name) if is_ready else made

    def make_ready(self, namespace: str, name: str) -> Document:
        path = GPU_UNITS.path(namespace=namespace, name=name, subresource="status")
        return self.call("PATCH", path, {"status": {"conditions": [READY]}})

    def objects(self, resource: Resource[Any], namespace: str) -> list[Document]:
        items: list[Document] = self.call("GET", resource.path(namespace=namespace))["items"]
        return items

    @property
    def units(self) -> list[Document]:
        return self.objects(GPU_UNITS, INSTANCE)

    @property
    def claimed(self) -> list[Document]:
        return [
            each
            for each in self.objects(GPU_UNITS, STOCK)
            if notes(each).get(labels.CLAIMED_BY, "")
        ]

    @property
    def free(self) -> list[Document]:
        stock = self.objects(GPU_UNITS, STOCK)
        return [each for each in stock if not notes(each).get(labels.CLAIMED_BY, "")]

    def assert_sound(self, *, strays: int = 0) -> None:
        """Assert that each unit has its own claimed stock unit; `strays` more are claimed."""
        sources = Counter(notes(unit).get(labels.SOURCE_STOCK_UID, "") for unit in self.units)
        assert all(count == 1 for count in sources.values()), "a stock unit is named twice"
        operations = Counter(notes(unit).get(labels.OPERATION_ID, "") for unit in self.units)
        assert all(count == 1 for count in operations.values()), "an operation has two units"
        claims = {
            each["metadata"]["uid"]: notes(each).get(labels.OPERATION_ID, "")
            for each in self.claimed
        }
        for unit in self.units:
            uid = notes(unit).get(labels.SOURCE_STOCK_UID, "")
            assert claims[uid] == notes(unit).get(labels.OPERATION_ID, ""), (
                "it names another's stock"
            )
        assert len(claims) == len(self.units) + strays


def notes(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the annotations of the document."""
    annotations: dict[str, str] = document["metadata"].get("annotations", {})
    return annotations


@attrs.frozen(kw_only=True)
class Replica:
    """A process with caches and a connection of its own, which tests can break."""

    transport: FaultyTransport
    context: OperationContext
    inventory: Operations
    stock: Informer[GPUUnit]
    units: Informer[GPUUnit]
    pools: Informer[StockPool]

    async def create(self, operation: str = "one", **members: object) -> str:
        """Create a unit and return the answer: `201 name`, `200 name`, or the error's code."""
        return await told(self.inventory, order(operation, **members))


@asynccontextmanager
async def replica(
    cluster: Cluster,
    *,
    seed: int = 1,
    latency: Callable[[], float] = lambda: 0.001,
    watch_lag: Callable[[], float] = lambda: 0.001,
    meter: Meter = NullMeter(),
    options: Options = OPTIONS,
) -> AsyncIterator[Replica]:
    """Run a replica whose caches are synced, and stop all its tasks at the end."""
    async with asyncio.TaskGroup() as tasks:
        transport = FaultyTransport(
            InProcessTransport(cluster.server),
            tasks=tasks,
            latency=latency,
            watch_lag=watch_lag,
        )
        client = Client(transport)
        informers = _informers(client, Random(seed))
        caches = Caches(
            stock=informers[0], units=informers[1], pools=informers[2], storages=informers[3]
        )
        context = OperationContext(
            client=client,
            caches=caches,
            options=options,
            now=clock,
            rng=Random(seed),
            meter=meter,
        )
        inventory = operations_of(context, tasks)
        runs = [tasks.create_task(each.run()) for each in informers]
        for informer in informers:
            await informer.synced.wait()
        transport.sent.clear()
        yield Replica(
            transport=transport,
            context=context,
            inventory=inventory,
            stock=informers[0],
            units=informers[1],
            pools=informers[2],
        )
        for run in runs:
            run.cancel()


def _informers(
    client: Client, rng: Random
) -> tuple[Informer[GPUUnit], Informer[GPUUnit], Informer[StockPool], Informer[GPUStorage]]:
    in_stock, in_use = Selection(namespace=STOCK), Selection(namespace=INSTANCE)
    return (
        Informer(client, GPU_UNITS, rng=rng, selection=in_stock, indexes=STOCK_INDEXES),
        Informer(client, GPU_UNITS, rng=rng, selection=in_use, indexes=UNIT_INDEXES),
        Informer(client, STOCK_POOLS, rng=rng, selection=in_stock, indexes=POOL_INDEXES),
        Informer(client, GPU_STORAGES, rng=rng, selection=in_use, indexes=STORAGE_INDEXES),
    )


def order(operation: str, **members: object) -> CreateUnit:
    body = {"operationID": operation, "specName": "g1.1", "image": "python:3.12", **members}
    return parse_create_unit(body, NAMESPACES)


async def told(inventory: Operations, request: CreateUnit) -> str:
    try:
        creation = await inventory.units.create(request)
    except OperationsError as error:
        return error.code
    return f"{200 if creation.is_replay else 201} {creation.unit.metadata.name}"
