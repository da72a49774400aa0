"""A cluster that continues with the objects of an earlier one: nothing moves that was at rest."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from gpuruntime.embedded.cluster import ClusterOptions, EmbeddedCluster
from gpuruntime.embedded.kinds.pod_objects import PODS, Pod
from gpuruntime.embedded.kinds.workload_objects import DEPLOYMENTS
from gpuruntime.embedded.objects.state_folder import state_folder
from gpuruntime.kube.client import Client
from tests.eventually import eventually
from tests.rooms.embedded.builders import MOMENT
from tests.rooms.embedded.world import NODE, World, deployment_spec

pytestmark = pytest.mark.looptime
SETTLING_SECONDS = 60.0


def now() -> datetime:
    return MOMENT + timedelta(seconds=asyncio.get_running_loop().time())


@asynccontextmanager
async def run(path: Path, seed: int) -> AsyncIterator[World]:
    options = ClusterOptions(nodes=NODE, seed=seed)
    with state_folder(path) as state:
        cluster = EmbeddedCluster(now=now, options=options, state=state)
        try:
            async with asyncio.TaskGroup() as tasks:
                running = tasks.create_task(cluster.run(), name="cluster")
                await cluster.ready.wait()
                yield World(cluster, Client(cluster.transport))
                running.cancel()
        finally:
            state.close(cluster.server.store)


async def running_pods(world: World, count: int) -> dict[str, Pod]:
    async def pods() -> dict[str, Pod]:
        found = await world.client.list_page(PODS, namespace="default", limit=0)
        return {each.metadata.name: each for each in found.items}

    def are_ready(found: dict[str, Pod]) -> bool:
        return len(found) == count and all(
            each.status.phase == "Running" for each in found.values()
        )

    return await eventually(pods, are_ready, within_seconds=60)


async def test_running_pods_stay_as_they_are(tmp_path: Path) -> None:
    async with run(tmp_path, 1) as world:
        await world.make(DEPLOYMENTS, "web", spec=deployment_spec(replicas=3))
        before = await running_pods(world, 3)
        await asyncio.sleep(SETTLING_SECONDS)
        version = world.cluster.server.store.version
    async with run(tmp_path, 2) as world:
        await asyncio.sleep(SETTLING_SECONDS)
        assert await running_pods(world, 3) == before
        assert world.cluster.server.store.version == version


async def test_a_new_pod_gets_another_address_and_uid_than_restored_ones(tmp_path: Path) -> None:
    found: dict[str, Pod] = {}
    for number in range(3):
        async with run(tmp_path, number) as world:
            await world.pod(f"p{number}")
            found = await running_pods(world, number + 1)
    assert len({each.status.podIP for each in found.values()}) == 3
    assert len({each.metadata.uid for each in found.values()}) == 3


async def test_a_pod_that_was_starting_starts(tmp_path: Path) -> None:
    async with run(tmp_path, 1) as world:
        await world.pod("p")
    async with run(tmp_path, 2) as world:
        await running_pods(world, 1)
