"""The embedded cluster as a whole: reproducible runs, idle times, and ends of Pods and nodes."""

import asyncio

import attrs
import pytest

from gpuruntime.embedded.kinds.cluster_objects import NODES
from gpuruntime.embedded.kinds.pod_objects import PODS
from gpuruntime.embedded.kinds.workload_objects import DEPLOYMENTS, JOBS
from gpuruntime.embedded.nodes.failures import FAIL
from gpuruntime.embedded.nodes.seed_objects import node
from tests.rooms.embedded.builders import MOMENT
from tests.rooms.embedded.world import NODE, World, deployment_spec, job_spec, running_cluster

pytestmark = pytest.mark.looptime


def everything(world: World) -> list[bytes]:
    return [
        stored.body
        for collection in world.cluster.server.store.collections()
        for stored in collection.present("")
    ]


async def eventful_minute(seed: int) -> list[bytes]:
    async with running_cluster(nodes=attrs.evolve(NODE, count=3), seed=seed) as world:
        for number in range(4):
            spec = deployment_spec(replicas=2)
            await world.make(DEPLOYMENTS, f"web-{number}", spec=spec)
        await world.make(JOBS, "work", spec=job_spec(annotations={FAIL: "crash"}, backoffLimit=1))
        await asyncio.sleep(20)
        await world.delete(DEPLOYMENTS, "web-1")
        changed = deployment_spec(annotations={"x": "2"})
        await world.patch(DEPLOYMENTS, "web-2", spec={"template": changed["template"]})
        await asyncio.sleep(40)
        return everything(world)


async def test_one_seed_gives_the_same_objects_to_the_last_byte() -> None:
    assert await eventful_minute(1) == await eventful_minute(1)


async def test_another_seed_gives_other_objects() -> None:
    assert await eventful_minute(1) != await eventful_minute(2)


async def test_an_idle_cluster_writes_nothing() -> None:
    async with running_cluster() as world:
        await world.make(DEPLOYMENTS, "web", spec=deployment_spec(replicas=3))
        await asyncio.sleep(10)
        version = world.cluster.server.store.version
        await asyncio.sleep(3 * 3600)
        assert world.cluster.server.store.version == version


async def test_the_nodes_follow_the_options() -> None:
    async with running_cluster(nodes=attrs.evolve(NODE, count=2, gpus=4)) as world:
        nodes = await world.all(NODES)
        assert [found.metadata.name for found in nodes] == ["node-0", "node-1"]
        for found in nodes:
            assert found.status.allocatable["nvidia.com/gpu"] == "4"
            assert found.metadata.labels["nvidia.com/gpu.product"] == "NVIDIA-TEST"


async def test_a_pod_ends_within_its_grace_period_and_reports_its_end() -> None:
    async with running_cluster() as world:
        held = {"finalizers": ["example.com/hold"]}
        await world.pod("ending", metadata=held)
        await world.until(PODS, "ending", lambda pod: pod.is_ready)
        await world.delete(PODS, "ending")
        asked = await world.get(PODS, "ending")
        assert asked.metadata.deletionGracePeriodSeconds == 30
        ended = await world.until(PODS, "ending", lambda pod: pod.is_finished, seconds=1)
        terminated = ended.status.containerStatuses[0].state.terminated
        assert terminated is not None
        assert not ended.is_ready
        await world.patch(PODS, "ending", metadata={"finalizers": None})
        await world.until_gone(PODS, "ending", seconds=0.1)


async def test_a_pod_without_a_grace_period_is_gone_at_once() -> None:
    async with running_cluster() as world:
        await world.pod("stock", spec={"terminationGracePeriodSeconds": 0})
        await world.until(PODS, "stock", lambda pod: pod.is_ready)
        await world.delete(PODS, "stock")
        await world.until_gone(PODS, "stock", seconds=0.0)


async def test_a_pod_that_crashes_shows_it_in_time() -> None:
    async with running_cluster() as world:
        await world.pod("broken", metadata={"annotations": {FAIL: "crash=2: no GPU"}})

        def is_backing_off(pod: object) -> bool:
            return "CrashLoopBackOff" in str(pod)

        pod = await world.until(PODS, "broken", is_backing_off)
        assert pod.restarts == 1
        last = pod.status.containerStatuses[0].lastState.terminated
        assert last is not None
        assert (last.exitCode, last.message) == (2, "no GPU")
        assert any(said.startswith("BackOff: ") for said in await world.events("broken"))


async def test_pods_of_a_deleted_node_are_replaced_elsewhere() -> None:
    async with running_cluster(nodes=attrs.evolve(NODE, count=2)) as world:
        await world.make(DEPLOYMENTS, "web", spec=deployment_spec(replicas=1))
        await asyncio.sleep(1)
        (before,) = await world.all(PODS)
        await world.delete(NODES, before.spec.nodeName)
        await asyncio.sleep(39)
        (still,) = await world.all(PODS)
        assert still.metadata.uid == before.metadata.uid
        await asyncio.sleep(3)
        (after,) = await world.all(PODS)
        assert after.spec.nodeName not in ("", before.spec.nodeName)
        assert after.is_ready


async def test_a_node_that_returns_in_time_keeps_its_pods_running() -> None:
    async with running_cluster() as world:
        await world.pod("p")
        before = await world.until(PODS, "p", lambda pod: pod.is_ready)
        await world.delete(NODES, "node-0")
        await asyncio.sleep(30)
        await world.client.create(NODES, node("node-0", NODE, now=MOMENT))
        await asyncio.sleep(30)
        assert await world.get(PODS, "p") == before


async def test_a_pod_on_a_deleted_node_is_not_stopped_by_a_kubelet() -> None:
    async with running_cluster() as world:
        await world.pod("lost")
        await world.until(PODS, "lost", lambda pod: pod.is_ready)
        await world.delete(NODES, "node-0")
        await asyncio.sleep(0.1)
        await world.delete(PODS, "lost")
        await asyncio.sleep(30)
        assert (await world.get(PODS, "lost")).is_ending
        await world.until_gone(PODS, "lost", seconds=15)
