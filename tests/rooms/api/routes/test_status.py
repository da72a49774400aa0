"""Health and inventory: the state of the service, the cluster and the stock."""

import asyncio
from collections.abc import AsyncIterator

import attrs
import pytest

from gpuruntime.api.cluster_link import ClusterLink
from gpuruntime.models.kinds import labels
from gpuruntime.models.kubernetes.cluster import (
    Node,
    NodeSpec,
    NodeStatus,
    ResourceQuota,
    ResourceQuotaStatus,
)
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import Key, ObjectMeta
from gpuruntime.models.kubernetes.pod_requests import (
    ContainerResources,
    RequestingContainer,
    RequestingPod,
    RequestingPodSpec,
)
from tests.rooms.api.service import POOLS, UNITS, WELL, Service, service
from tests.rooms.operations.cluster import INSTANCE, STOCK, Cluster

pytestmark = pytest.mark.looptime

HEALTH = "/api/v1/health"
INVENTORY = "/api/v1/operator/inventory"


@pytest.fixture
async def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
async def api(cluster: Cluster) -> AsyncIterator[Service]:
    async with service(cluster) as served:
        yield served


def add_node(
    api: Service, name: str, *, gpus: str = "", product: str = "", is_ready: bool = True
) -> None:
    node = Node(
        metadata=ObjectMeta(name=name, labels={labels.GPU_PRODUCT: product} if product else {}),
        spec=NodeSpec(unschedulable=not is_ready),
        status=NodeStatus(
            capacity={"nvidia.com/gpu": gpus, "cpu": "8"},
            allocatable={"nvidia.com/gpu": gpus, "cpu": "7500m", "memory": "60Gi"},
            conditions=(Condition(type="Ready", status="True" if is_ready else "False"),),
        ),
    )
    api.nodes.put(node.metadata.key, node)


def hold(
    api: Service, name: str, namespace: str, node: str, gpus: str, *, label: str = "app"
) -> None:
    """Let a Pod of that name, in its present version, request the GPUs of the node."""
    before = api.pods.store.get(Key(namespace, name))
    version = int(before.metadata.resourceVersion) + 1 if before else 1
    resources = ContainerResources(requests={"nvidia.com/gpu": gpus})
    metadata = ObjectMeta(
        name=name,
        namespace=namespace,
        uid=name,
        resourceVersion=str(version),
        labels={label: name},
    )
    spec = RequestingPodSpec(nodeName=node, containers=(RequestingContainer(resources=resources),))
    api.pods.write_through(RequestingPod(metadata=metadata, spec=spec))


async def test_health_tells_held_and_free_gpus_as_pods_change(api: Service) -> None:
    add_node(api, "n1", gpus="8", product="H100")
    hold(api, "a", STOCK, "n1", "2", label=labels.UNIT)
    hold(api, "b", INSTANCE, "n1", "1", label=labels.UNIT)
    hold(api, "c", INSTANCE, "n1", "1")
    hold(api, "a", STOCK, "n1", "4", label=labels.UNIT)
    hold(api, "elsewhere", "default", "gone", "8")
    health = (await api.call("GET", HEALTH)).data
    assert (health["totalGPUHeldByStock"], health["totalGPUHeldByUnits"]) == (4, 1)
    assert (health["totalGPUHeldByOthers"], health["totalGPUFree"]) == (1, 2)
    assert health["gpuUsageError"] == ""


async def test_without_the_pods_held_and_free_gpus_are_unknown(api: Service) -> None:
    add_node(api, "n1", gpus="8", product="H100")
    api.why_pods_are_unknown = "pods is forbidden"
    health = (await api.call("GET", HEALTH)).data
    fleet = (await api.call("GET", INVENTORY)).data
    assert (health["totalGPUAllocatable"], health["totalGPUFree"]) == (8, None)
    assert (fleet["nodes"][0]["gpuHeldByOthers"], fleet["gpuProducts"][0]["gpuFree"]) == (
        None,
        None,
    )
    assert health["gpuUsageError"] == fleet["gpuUsageError"] == "pods is forbidden"


async def test_a_declared_function_is_not_counted_as_an_active_unit(api: Service) -> None:
    await api.create(name="echo", serverless={"requestID": "echo"})
    health = (await api.call("GET", HEALTH)).data
    assert health["activeUnitCount"] == 0
    assert (await api.call("GET", INVENTORY)).data["specs"] == []


async def test_health_counts_units_stock_nodes_and_gpus(cluster: Cluster, api: Service) -> None:
    cluster.add_stock(3)
    cluster.add_stock_unit("p-9", is_ready=False)
    add_node(api, "n1", gpus="8", product="H100")
    add_node(api, "n2", gpus="4", product="A100", is_ready=False)
    add_node(api, "n3")
    await asyncio.sleep(1)
    await api.create()
    health = (await api.call("GET", HEALTH)).data
    assert (health["status"], health["version"]) == ("ok", "1.2.3")
    assert (health["kubernetesConnected"], health["cacheSynced"]) == (True, True)
    assert (health["activeUnitCount"], health["stockUnitCount"]) == (1, 4)
    assert health["readyStockCount"] == 2
    assert (health["nodeCount"], health["readyNodeCount"]) == (3, 2)
    assert (health["totalGPUCapacity"], health["totalGPUAllocatable"]) == (12, 12)
    assert health["gpuProducts"] == ["A100", "H100"]


async def test_health_reports_the_start_and_the_uptime(cluster: Cluster) -> None:
    async with service(cluster) as served:
        await asyncio.sleep(90)
        health = (await served.call("GET", HEALTH)).data
    assert 90 <= health["uptimeSeconds"] < 91


AWAY = {
    "off": ClusterLink(is_enabled=False),
    "away": ClusterLink(error="connection refused"),
    "not synced": ClusterLink(is_connected=True),
    "stopping": attrs.evolve(WELL, is_stopping=True),
}


@pytest.mark.parametrize("state", AWAY)
async def test_without_a_cluster_health_answers_and_the_rest_is_503(
    api: Service, state: str
) -> None:
    api.connection = AWAY[state]
    health = await api.call("GET", HEALTH)
    assert health.status == 200
    assert health.data["status"] == ("ok" if state == "off" else "degraded")
    assert health.data["kubernetesError"] == AWAY[state].error
    for path in (UNITS, f"{UNITS}/demo", POOLS, INVENTORY):
        answer = await api.call("GET", path)
        assert (answer.status, answer.code) == (503, "service_unavailable")
        assert int(answer.headers["Retry-After"]) >= 1
    assert (await api.create()).status == 503


@pytest.mark.parametrize("query", ["probe=1", "probe=1&probe=2", "a", "=", "%zz", "?", "x=%00"])
async def test_health_ignores_unknown_query_parameters(api: Service, query: str) -> None:
    """A load balancer may add a parameter against caches; refusing it would drop the replica."""
    assert (await api.call("GET", f"{HEALTH}?{query}")).status == 200


async def test_health_never_asks_the_cluster(api: Service) -> None:
    api.replica.transport.sent.clear()
    api.replica.transport.cut()
    assert (await api.call("GET", HEALTH)).status == 200
    assert api.replica.transport.sent == []


async def test_a_bad_request_is_400_without_a_cluster(api: Service) -> None:
    api.connection = AWAY["away"]
    assert (await api.create(name="Upper")).status == 400


async def test_the_inventory_counts_stock_and_units_by_spec_name(
    cluster: Cluster, api: Service
) -> None:
    cluster.add_stock(2)
    cluster.add_stock_unit("q-1", pool="q", is_ready=False, specName="g2")
    await asyncio.sleep(1)
    await api.create(name="demo")
    cluster.make_ready(INSTANCE, "demo")
    await asyncio.sleep(1)
    first, second = (await api.call("GET", INVENTORY)).data["specs"]
    assert first == {
        "specName": "g1.1",
        "stock": {"total": 2, "available": 1, "claimed": 1, "progressing": 0, "failed": 0},
        "active": {"total": 1, "ready": 1, "progressing": 0, "suspended": 0, "failed": 0},
    }
    assert (second["specName"], second["stock"]["progressing"]) == ("g2", 1)


async def test_the_inventory_lists_nodes_products_and_quotas(api: Service) -> None:
    add_node(api, "n2", gpus="8", product="H100")
    add_node(api, "n1", gpus="8", product="H100", is_ready=False)
    quota = ResourceQuota(
        metadata=ObjectMeta(name="gpus", namespace=STOCK),
        status=ResourceQuotaStatus(hard={"cpu": "10"}, used={"cpu": "1"}),
    )
    api.quotas.put(quota.metadata.key, quota)
    hold(api, "a", STOCK, "n1", "2", label=labels.UNIT)
    hold(api, "b", INSTANCE, "n1", "3", label=labels.UNIT)
    hold(api, "c", "default", "n2", "1")
    fleet = (await api.call("GET", INVENTORY)).data
    assert [node["name"] for node in fleet["nodes"]] == ["n1", "n2"]
    assert fleet["nodes"][0] == {
        "name": "n1",
        "ready": False,
        "schedulable": False,
        "gpuProduct": "H100",
        "gpuCapacity": 8,
        "gpuAllocatable": 8,
        "gpuHeldByStock": 2,
        "gpuHeldByUnits": 3,
        "gpuHeldByOthers": 0,
        "gpuFree": 3,
        "cpuAllocatable": "7500m",
        "memoryAllocatable": "60Gi",
    }
    assert fleet["gpuProducts"] == [
        {
            "product": "H100",
            "nodes": 2,
            "gpuCapacity": 16,
            "gpuAllocatable": 16,
            "gpuHeldByStock": 2,
            "gpuHeldByUnits": 3,
            "gpuHeldByOthers": 1,
            "gpuFree": 10,
        }
    ]
    assert fleet["gpuUsageError"] == ""
    assert fleet["quotas"] == [
        {"namespace": STOCK, "name": "gpus", "hard": {"cpu": "10"}, "used": {"cpu": "1"}}
    ]


async def test_a_node_with_a_malformed_gpu_count_has_none(api: Service) -> None:
    add_node(api, "n1", gpus="many")
    assert (await api.call("GET", HEALTH)).data["totalGPUCapacity"] == 0
