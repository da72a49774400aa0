"""`kubectl logs` of simulated containers."""

import asyncio

import pytest

from gpuruntime.embedded.kinds.pod_objects import PODS
from gpuruntime.embedded.nodes.failures import FAIL, RUN_SECONDS
from gpuruntime.kube.transport import Request
from tests.rooms.embedded.world import World, running_cluster

pytestmark = pytest.mark.looptime

FIRST_LINE = "simulated: container c of default/p runs by the clock, without any process\n"


async def logs(world: World, **query: str) -> tuple[int, str]:
    path = "/api/v1/namespaces/default/pods/p/log"
    request = Request(method="GET", path=path, query=tuple(query.items()))
    answer = await world.cluster.transport.request(request)
    return answer.status, answer.body.decode()


async def test_a_running_container_says_that_it_is_simulated() -> None:
    async with running_cluster() as world:
        await world.pod("p")
        await world.until(PODS, "p", lambda pod: pod.is_ready)
        assert await logs(world) == (200, FIRST_LINE)


async def test_a_container_that_has_not_started_has_no_log() -> None:
    async with running_cluster() as world:
        await world.pod("p", metadata={"annotations": {FAIL: "image-pull"}})
        await asyncio.sleep(5)
        status, body = await logs(world)
        assert status == 400
        assert "is waiting to start: trying and failing to pull image" in body


async def test_the_message_of_a_crash_is_in_its_log() -> None:
    async with running_cluster() as world:
        await world.pod("p", metadata={"annotations": {FAIL: "crash: line one\nline two"}})
        await world.until(PODS, "p", lambda pod: pod.restarts == 1)
        words = f"{FIRST_LINE}line one\nline two\n"
        assert await logs(world, previous="true") == (200, words)
        assert await logs(world, previous="true", tailLines="1") == (200, "line two\n")
        assert await logs(world, previous="true", tailLines="9") == (200, words)


async def test_times_of_lines_are_refused_since_none_are_kept() -> None:
    async with running_cluster() as world:
        await world.pod("p")
        await world.until(PODS, "p", lambda pod: pod.is_ready)
        for query in ({"sinceSeconds": "60"}, {"timestamps": "true"}):
            status, body = await logs(world, **query)
            assert (status, "keeps no times of log lines" in body) == (400, True)


async def test_a_followed_log_ends_with_its_container() -> None:
    async with running_cluster() as world:
        annotations = {RUN_SECONDS: "30"}
        spec = {"restartPolicy": "Never"}
        await world.pod("p", spec=spec, metadata={"annotations": annotations})
        await world.until(PODS, "p", lambda pod: pod.is_ready)
        began_at = asyncio.get_running_loop().time()
        assert await logs(world, follow="true") == (200, FIRST_LINE)
        assert 29 <= asyncio.get_running_loop().time() - began_at <= 31
