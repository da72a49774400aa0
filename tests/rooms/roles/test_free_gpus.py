"""The api counts the GPUs that Pods of the whole cluster hold, if it may list them."""

import asyncio
from typing import Any

import pytest

from gpuruntime.embedded.cluster import EmbeddedCluster
from gpuruntime.kube.client import Client
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kubernetes.cluster import NODES
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.pods import PODS
from gpuruntime.roles.cluster_connection import wall_clock
from gpuruntime.roles.dev.installation import install
from tests.faults import FaultyTransport, refused
from tests.rooms.roles.test_api_connection import FOR_EVER, SETTINGS, health, running

pytestmark = pytest.mark.looptime

NODE: JsonObject = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n"},
    "status": {"capacity": {"nvidia.com/gpu": "8"}, "allocatable": {"nvidia.com/gpu": "8"}},
}


async def cluster_with_pods(*names: str) -> tuple[EmbeddedCluster, Client]:
    """Return a cluster with a node of 8 GPUs, and foreign Pods that request one of them each."""
    cluster = EmbeddedCluster(now=wall_clock)
    client = Client(cluster.transport)
    await install(client, SETTINGS)
    await client.create(NODES, NODE)
    for name in names:
        await client.create(PODS, foreign_pod(name), namespace="default")
    return cluster, client


def foreign_pod(name: str) -> JsonObject:
    gpus: JsonObject = {"nvidia.com/gpu": "1"}
    container: JsonObject = {
        "name": "c",
        "image": "i",
        "resources": {"requests": gpus, "limits": gpus},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"nodeName": "n", "containers": [container]},
    }


def free_of(view: dict[str, Any]) -> tuple[int | None, int | None]:
    return view["totalGPUHeldByOthers"], view["totalGPUFree"]


async def test_pods_of_other_namespaces_hold_gpus_until_they_have_ended() -> None:
    cluster, client = await cluster_with_pods("a", "b", "c")
    async with running(cluster.transport) as api:
        assert free_of(await health(api)) == (3, 5)
        ended: JsonObject = {"status": {"phase": "Succeeded"}}
        await client.patch(PODS, Key("default", "a"), ended, subresource="status")
        await client.create(PODS, foreign_pod("d"), namespace="default")
        await asyncio.sleep(1)
        assert free_of(await health(api)) == (3, 5)
        await client.delete(PODS, Key("default", "d"), grace_seconds=0)
        await asyncio.sleep(1)
        assert free_of(await health(api)) == (2, 6)


async def test_without_the_right_to_list_pods_free_gpus_are_unknown_and_all_else_works() -> None:
    cluster, _ = await cluster_with_pods("a")
    transport = FaultyTransport(cluster.transport)
    transport.on("GET", "/api/v1/pods$", refused(403, "Forbidden"), times=FOR_EVER)
    async with running(transport) as api:
        await asyncio.sleep(600)
        view = await health(api)
        assert (view["status"], view["cacheSynced"]) == ("ok", True)
        assert (view["totalGPUAllocatable"], *free_of(view)) == (8, None, None)
        assert "Pods of the cluster are not known" in view["gpuUsageError"]
        assert "Forbidden" in view["gpuUsageError"]
        asked = sum(each.path == "/api/v1/pods" for each in transport.sent)
        assert asked <= 60, "a missing right is asked for rarely"
        transport.clear()
        await asyncio.sleep(60)
        view = await health(api)
        assert (view["gpuUsageError"], *free_of(view)) == ("", 1, 7)
