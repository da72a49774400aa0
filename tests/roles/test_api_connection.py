"""How the api stands to its cluster, as its mirrors hear of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from gpuruntime.kube.client import Client
from gpuruntime.local.cluster import EmbeddedCluster
from gpuruntime.roles.api import Api
from gpuruntime.roles.cluster import wall_clock
from gpuruntime.roles.dev import install
from gpuruntime.settings import Address, OperationsSettings, Settings
from tests.faults import UNREACHABLE, FaultyTransport

pytestmark = pytest.mark.looptime

SETTINGS = Settings(
    listen=Address("127.0.0.1", 0),
    operations=OperationsSettings(listen=Address("127.0.0.1", 0)),
)
FOR_EVER = 10**9


@asynccontextmanager
async def serving(*unreachable: str) -> AsyncIterator[Api]:
    cluster = EmbeddedCluster(now=wall_clock)
    await install(Client(cluster.transport), SETTINGS)
    transport = FaultyTransport(cluster.transport)
    for path in unreachable:
        transport.on("GET", path, UNREACHABLE, times=FOR_EVER)
    api = Api(SETTINGS, transport=transport)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(api.run(), name="api")
        await api.listening.wait()
        await asyncio.sleep(5)
        yield api
        await api.drain()
        task.cancel()


async def health(api: Api) -> Any:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{api.address}/api/v1/health") as answer,
    ):
        return (await answer.json())["data"]


async def test_one_mirror_that_waits_to_try_again_is_no_lost_cluster() -> None:
    async with serving("stockpools") as api:
        view = await health(api)
        assert view["kubernetesConnected"]
        assert not view["cacheSynced"]
        assert "no connection" in view["kubernetesError"]


async def test_a_cluster_that_no_mirror_hears_of_is_away() -> None:
    async with serving("") as api:
        view = await health(api)
        assert not view["kubernetesConnected"]
        assert "no connection" in view["kubernetesError"]
