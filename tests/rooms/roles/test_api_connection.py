"""The api's view of its cluster follows from what its mirrors receive."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from gpuruntime.embedded.cluster import EmbeddedCluster
from gpuruntime.informer.recovery import LONGEST_DELAY_SECONDS
from gpuruntime.kube.client import Client
from gpuruntime.kube.transport import Response, Transport
from gpuruntime.roles.api import ApiParts, api_role
from gpuruntime.roles.cluster_connection import wall_clock
from gpuruntime.roles.dev.installation import install
from gpuruntime.roles.mirrors import LONGEST_LAG_SECONDS, LONGEST_SILENCE_SECONDS
from gpuruntime.settings.schema import OperationsSettings, Settings
from gpuruntime.settings.values import Address
from tests.faults import UNREACHABLE, FaultyTransport
from tests.rooms.roles.gate import Gate, status

pytestmark = pytest.mark.looptime

SETTINGS = Settings(
    listen=Address("127.0.0.1", 0),
    operations=OperationsSettings(listen=Address("127.0.0.1", 0)),
)
FOR_EVER = 10**9


HTML = b"<html>\n<body>no healthy upstream</body>\n</html>\n"
FORBIDDEN = status(403, "Forbidden")
UNAVAILABLE = status(503, "ServiceUnavailable")
REFUSALS = {
    "a right that is gone": FORBIDDEN,
    "a token that is gone": Response(status=401),
    "a load balancer": Response(status=503, body=HTML),
    "a page for everything": Response(status=200, body=HTML),
}


@asynccontextmanager
async def serving(*unreachable: str) -> AsyncIterator[ApiParts]:
    cluster = EmbeddedCluster(now=wall_clock)
    await install(Client(cluster.transport), SETTINGS)
    transport = FaultyTransport(cluster.transport)
    for path in unreachable:
        transport.on("GET", path, UNREACHABLE, times=FOR_EVER)
    async with running(transport) as api:
        yield api


@asynccontextmanager
async def gated() -> AsyncIterator[tuple[ApiParts, Gate]]:
    """Run an api with full caches and a gate between it and its cluster."""
    cluster = EmbeddedCluster(now=wall_clock)
    await install(Client(cluster.transport), SETTINGS)
    gate = Gate(cluster.transport)
    async with running(gate) as api:
        await api.serving()
        yield api, gate


@asynccontextmanager
async def running(transport: Transport) -> AsyncIterator[ApiParts]:
    role = api_role(SETTINGS, transport=transport)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(role.run(), name="api")
        api = await role.opened()
        await api.listening.wait()
        await asyncio.sleep(5)
        yield api
        await role.drain()
        task.cancel()


async def health(api: ApiParts) -> Any:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{api.address}/api/v1/health") as answer,
    ):
        return (await answer.json())["data"]


async def reads(api: ApiParts) -> int:
    """Return the status of a list that is read from a cache."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{api.address}/api/v1/operator/stockpools") as answer,
    ):
        return answer.status


async def test_a_single_mirror_that_waits_for_its_retry_is_no_lost_cluster() -> None:
    async with serving("stockpools") as api:
        view = await health(api)
        assert view["kubernetesConnected"]
        assert not view["cacheSynced"]
        assert "no connection" in view["kubernetesError"]


async def test_a_cluster_that_no_mirror_reaches_is_disconnected() -> None:
    async with serving("") as api:
        view = await health(api)
        assert not view["kubernetesConnected"]
        assert "no connection" in view["kubernetesError"]


@pytest.mark.parametrize("answer", REFUSALS.values(), ids=REFUSALS)
async def test_a_cluster_that_refuses_every_request_is_disconnected(answer: Response) -> None:
    async with gated() as (api, gate):
        gate.shut(answer)
        await asyncio.sleep(LONGEST_SILENCE_SECONDS - 5)
        assert (await health(api))["kubernetesConnected"], "a moment's refusal is none"
        assert await reads(api) == 200
        await asyncio.sleep(10)
        view = await health(api)
        assert not view["kubernetesConnected"]
        assert view["kubernetesError"]
        assert await reads(api) == 503

        gate.open()
        await asyncio.sleep(LONGEST_DELAY_SECONDS + 1)
        assert (await health(api))["kubernetesConnected"]
        assert await reads(api) == 200


async def test_the_content_of_a_failing_mirror_is_not_served_for_long() -> None:
    async with gated() as (api, gate):
        gate.shut(FORBIDDEN, "stockpools")
        await asyncio.sleep(LONGEST_DELAY_SECONDS)
        assert await reads(api) == 200
        await asyncio.sleep(LONGEST_LAG_SECONDS)
        view = await health(api)
        assert (view["status"], view["cacheSynced"]) == ("degraded", False)
        assert view["kubernetesConnected"], "the other mirrors hear of it"
        assert "stockpools" in view["kubernetesError"]
        assert await reads(api) == 503

        gate.open()
        await asyncio.sleep(LONGEST_DELAY_SECONDS + 1)
        assert await reads(api) == 200


async def test_a_single_refusal_never_makes_a_mirror_stale_despite_earlier_failures() -> None:
    async with gated() as (api, gate):
        gate.shut(UNAVAILABLE, "stockpools")
        await asyncio.sleep(600)
        gate.open()
        await asyncio.sleep(LONGEST_DELAY_SECONDS + 1)
        gate.shut(UNAVAILABLE, "stockpools")
        await asyncio.sleep(1.5)
        gate.open()
        assert (await health(api))["kubernetesError"], "it waits to try again"
        for _ in range(45):
            assert await reads(api) == 200
            await asyncio.sleep(1)
