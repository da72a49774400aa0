"""The network connections that the manager's policies on the embedded cluster permit.

The embedded cluster enforces no policies: the tests' own evaluator says what a network would let
through.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from gpuruntime.embedded.apiserver.server import Server
from gpuruntime.embedded.cluster import EmbeddedCluster
from gpuruntime.embedded.kinds.cluster_objects import NAMESPACES
from gpuruntime.kube.client import Client
from gpuruntime.kube.transport import Request, Response, Socket, StreamResponse
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.pools import STOCK_POOLS
from gpuruntime.models.kinds.storages import GPU_STORAGES
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.network import NETWORK_POLICIES
from gpuruntime.models.kubernetes.pods import PODS
from gpuruntime.models.kubernetes.resources import Resource
from gpuruntime.roles.cluster_connection import wall_clock
from gpuruntime.roles.dev.installation import install
from gpuruntime.roles.manager import manager_role
from gpuruntime.settings.gateway import GatewaySettings
from gpuruntime.settings.schema import (
    NatsPeerSettings,
    NetworkSettings,
    OperationsSettings,
    Settings,
)
from gpuruntime.settings.serverless import NatsSettings
from gpuruntime.settings.values import Address
from tests.eventually import eventually
from tests.policies import Document, Endpoint, Network, selects
from tests.rooms.manifests.overlays import documents

pytestmark = pytest.mark.looptime

STOCK, INSTANCE, SYSTEM = "runtime-stock", "runtime-instance", "runtime-system"
OTHERS = {
    "callers": {"runtime.lokiwager.io/access": "true"},
    "elsewhere": {},
    "queue": {"team": "queue"},
}
SETTINGS = Settings(
    operations=OperationsSettings(listen=Address("127.0.0.1", 0)),
    nats=NatsSettings(url="nats://nats.queue.svc:4222"),
    network=NetworkSettings(
        nats=NatsPeerSettings(namespaceLabels={"team": "queue"}, podLabels={"app": "nats"})
    ),
    gateway=GatewaySettings(publicURL="https://*.units.example.com"),
)
PORTS = [
    {"name": "http", "port": 8080},
    {"name": "game", "port": 7777, "protocol": "UDP"},
]
FUNCTION = {"requestID": "f", "workerOf": {"name": "f", "uid": "1"}}
FILL = {"fromImage": "busybox:1.36", "command": ["true"]}
# A Pod with the labels of a unit belongs to it only in the namespace of units. The label with the
# name alone may also belong to an earlier unit.
NOT_PODS_OF_OURS = {
    "caller": Endpoint(namespace="callers", addresses=("10.1.0.1", "fd00::1:1")),
    "stranger": Endpoint(namespace="elsewhere", addresses=("10.1.0.2", "fd00::1:2")),
    "impostor": Endpoint(namespace="elsewhere", labels={labels.UNIT: "web"}),
    "namesake": Endpoint(namespace=INSTANCE, labels={labels.UNIT: "web"}),
    "unknown": Endpoint(namespace=INSTANCE, addresses=("10.1.0.3",)),
    "api": Endpoint(namespace=SYSTEM, labels={labels.APP_NAME: "gpuruntime-api"}),
    "gateway": Endpoint(
        namespace=SYSTEM,
        labels={
            labels.APP_NAME: "gpuruntime-gateway",
            "app.kubernetes.io/part-of": "gpuruntime",
        },
    ),
    "manager": Endpoint(namespace=SYSTEM, labels={labels.APP_NAME: "gpuruntime-manager"}),
    "dns": Endpoint(namespace="kube-system", labels={"k8s-app": "kube-dns"}),
    "nats": Endpoint(namespace="queue", labels={"app": "nats"}, addresses=("10.1.0.4",)),
    "internet": Endpoint(addresses=("93.184.216.34",)),
    "internet in IPv6": Endpoint(addresses=("2606:2800:220:1::1",)),
    "metadata": Endpoint(addresses=("169.254.169.254",)),
    "cluster": Endpoint(addresses=("10.96.0.1",)),
    "cluster in IPv6": Endpoint(addresses=("fd00:96::1",)),
    "neighbour in IPv6": Endpoint(addresses=("fe80::1",)),
}
OUTSIDE = ("internet", "internet in IPv6")
UNITS = ("web", "quiet", "worker")
HELPERS = ("download", "copy", "files")
OURS = ("stock", *UNITS, *HELPERS)

Pair = tuple[str, str, int, str]


def reachable() -> Iterator[Pair]:
    """Yield all permitted connections; every other pair of the table is denied."""
    for source, target in (
        ("caller", "web"),
        ("caller", "worker"),
        ("helper", "web"),
        ("web", "helper"),
    ):
        yield source, target, 8080, "TCP"
        yield source, target, 7777, "UDP"
    for target in ("web", "worker"):
        yield "gateway", target, 8080, "TCP"
    yield "api", "files", 5000, "TCP"
    for source in (*UNITS, "download"):
        for protocol in ("TCP", "UDP"):
            yield source, "dns", 53, protocol
        for target in OUTSIDE:
            for port in (53, 5000, 7777, 8080, 4222):
                for protocol in ("TCP", "UDP"):
                    yield source, target, port, protocol
    yield "worker", "nats", 4222, "TCP"


def table(everybody: dict[str, Endpoint]) -> Iterator[Pair]:
    for source in everybody:
        for target in everybody:
            if target != source and {source, target} & set(OURS):
                for port in (53, 5000, 7777, 8080, 4222):
                    for protocol in ("TCP", "UDP"):
                        yield source, target, port, protocol


class Witness:
    """A transport that records Pods that started before a policy of their own selected them."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.started: list[str] = []
        self.unheld: list[str] = []
        self._inner = cluster.transport
        self._server = cluster.server

    async def request(self, request: Request) -> Response:
        if request.method == "POST" and f"/{INSTANCE}/" in request.path:
            self._look(json.loads(request.body or b"{}"))
        return await self._inner.request(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        return self._inner.stream(request)

    def socket(
        self, request: Request, protocol: str
    ) -> AbstractAsyncContextManager[Socket | Response]:
        return self._inner.socket(request, protocol)

    def _look(self, body: Document) -> None:
        if body["kind"] not in ("Deployment", "Job"):
            return
        name, given = body["metadata"]["name"], body["spec"]["template"]["metadata"]["labels"]
        own = [
            each
            for each in listed(self._server, NETWORK_POLICIES, INSTANCE)
            if each["spec"]["podSelector"] and selects(each["spec"]["podSelector"], given)
        ]
        self.started.append(name)
        if not own:
            self.unheld.append(name)


def listed(server: Server, resource: Resource[Any], namespace: str = "") -> list[Document]:
    path = resource.path(namespace=namespace) if namespace else resource.path()
    items: list[Document] = json.loads(server.handle(Request(method="GET", path=path)).body)[
        "items"
    ]
    return items


@asynccontextmanager
async def managing(cluster: EmbeddedCluster) -> AsyncIterator[Witness]:
    witness = Witness(cluster)
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(cluster.run(), name="cluster")]
        await cluster.ready.wait()
        await furnish(cluster)
        manager = manager_role(SETTINGS, transport=witness)
        running.append(tasks.create_task(manager.run(), name="manager"))
        yield witness
        for task in running:
            task.cancel()


async def furnish(cluster: EmbeddedCluster) -> None:
    """Create what an operator brings with the manifests, and the objects of tenants and others."""
    client = Client(cluster.transport)
    await install(client, SETTINGS)
    for name, given in OTHERS.items():
        await client.create(NAMESPACES, made("v1", "Namespace", name, labels=given))
    for policy in documents("NetworkPolicy"):
        namespace = policy["metadata"]["namespace"]
        await client.create(NETWORK_POLICIES, policy, namespace=namespace)
    pool = {"specName": "g1.1", "gpu": 1, "replicas": 1}
    await create(client, STOCK_POOLS, STOCK, "pool", **pool, template={"ports": PORTS})
    for name, more in (
        ("web", {"template": {"ports": PORTS}}),
        ("quiet", {}),
        ("worker", {"template": {"ports": PORTS}, "serverless": FUNCTION}),
    ):
        await create(client, GPU_UNITS, INSTANCE, name, specName="g1.1", **more)
    served = {"accessor": {"enabled": True}, "size": "1Gi"}
    await create(client, GPU_STORAGES, INSTANCE, "filled", prepare=FILL, **served)
    copied = {"fromStorageName": "filled"}
    await create(client, GPU_STORAGES, INSTANCE, "copied", prepare=copied, size="1Gi")


async def create(
    client: Client, resource: Resource[Any], namespace: str, name: str, **spec: Any
) -> None:
    body = {**made(resource.api_version, resource.kind, name), "spec": spec}
    await client.create(resource, body, namespace=namespace)


def made(version: str, kind: str, name: str, **metadata: Any) -> Document:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **metadata}}


def pods_of_ours(server: Server) -> dict[str, Endpoint]:
    """Return our Pods by their names in the table."""
    found = {}
    for namespace in (STOCK, INSTANCE):
        for pod in listed(server, PODS, namespace):
            address = pod.get("status", {}).get("podIP", "")
            if address:
                found[role_of(pod)] = endpoint(pod, (address, "fd00::2:1"))
    return found


def role_of(pod: Document) -> str:
    given = pod["metadata"]["labels"]
    if labels.PREPARE in given:
        return {"filled": "download", "copied": "copy"}[given[labels.PREPARE]]
    if labels.ACCESSOR in given:
        return "files"
    return "stock" if labels.POOL in given else str(given[labels.UNIT])


def endpoint(pod: Document, addresses: tuple[str, ...]) -> Endpoint:
    ports = (port for each in pod["spec"]["containers"] for port in each.get("ports", []))
    return Endpoint(
        namespace=pod["metadata"]["namespace"],
        labels=pod["metadata"]["labels"],
        addresses=addresses,
        ports={each["name"]: (each["containerPort"], each["protocol"]) for each in ports},
    )


def network_of(server: Server) -> Network:
    return Network(
        namespaces={
            each["metadata"]["name"]: each["metadata"].get("labels", {})
            for each in listed(server, NAMESPACES)
        },
        policies=tuple(
            policy
            for namespace in (STOCK, INSTANCE, SYSTEM)
            for policy in listed(server, NETWORK_POLICIES, namespace)
        ),
    )


async def test_every_connection_is_permitted_or_denied_as_the_table_says() -> None:
    cluster = EmbeddedCluster(now=wall_clock)
    everybody: dict[str, Endpoint] = {}
    async with managing(cluster) as witness:
        everybody = await eventually(
            lambda: {**NOT_PODS_OF_OURS, **pods_of_ours(cluster.server)},
            lambda found: found.keys() >= set(OURS),
            within_seconds=60,
            poll_seconds=0.2,
        )
    everybody["helper"] = Endpoint(namespace=INSTANCE, labels=everybody["web"].labels)
    network = network_of(cluster.server)
    wanted = set(reachable())
    pairs = list(table(everybody))
    wrong = [
        pair
        for pair in pairs
        if network.permits(everybody[pair[0]], everybody[pair[1]], *pair[2:]) != (pair in wanted)
    ]
    assert wrong == []
    assert wanted <= set(pairs)
    assert witness.unheld == []
    assert len(witness.started) == len(UNITS) + len(HELPERS)
