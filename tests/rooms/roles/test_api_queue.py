"""The api and its broker: reported in health, recovering alone, and never a reason to be down."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import attrs

from gpuruntime.embedded.cluster import EmbeddedCluster
from gpuruntime.kube.client import Client
from gpuruntime.roles.api import ApiParts, api_role
from gpuruntime.roles.cluster_connection import wall_clock
from gpuruntime.roles.dev.installation import install
from gpuruntime.settings.schema import OperationsSettings, Settings
from gpuruntime.settings.serverless import NatsSettings
from gpuruntime.settings.values import Address
from tests.eventually import eventually
from tests.rooms.bus.broker import Broker
from tests.rooms.bus.fixtures import own

__all__ = ["own"]

SETTINGS = Settings(
    listen=Address("127.0.0.1", 0),
    operations=OperationsSettings(listen=Address("127.0.0.1", 0)),
)
INVOCATIONS = "/api/v1/serverless/invocations"
SYNC = {"serverlessRequestID": "echo", "mode": "sync", "invocationID": "one"}
UNIT = {
    "operationID": "make",
    "name": "echo",
    "specName": "g1.1",
    "image": "echo:1",
    "serverless": {"requestID": "echo"},
}


@asynccontextmanager
async def serving(url: str) -> AsyncIterator[ApiParts]:
    cluster = EmbeddedCluster(now=wall_clock)
    await install(Client(cluster.transport), SETTINGS)
    role = api_role(
        attrs.evolve(SETTINGS, nats=NatsSettings(url=url)), transport=cluster.transport
    )
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(role.run(), name="api")
        api = await role.opened()
        await api.serving()
        yield api
        await role.drain()
        task.cancel()


async def send(api: ApiParts, method: str, path: str, body: object = None) -> tuple[int, Any]:
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, f"{api.address}{path}", json=body) as answer,
    ):
        return answer.status, await answer.json()


async def until_connected(api: ApiParts, *, is_there: bool) -> None:
    async def health() -> Any:
        _, view = await send(api, "GET", "/api/v1/health")
        assert view["data"]["status"] == "ok"
        return view["data"]

    await eventually(health, lambda seen: seen["queueConnected"] is is_there)


async def until_accepted(api: ApiParts) -> None:
    path = f"{INVOCATIONS}/one?serverlessRequestID=echo"
    await eventually(lambda: send(api, "GET", path), lambda seen: seen[0] == 200)


async def test_a_broker_that_comes_and_goes_is_reported_and_affects_nothing_else(
    own: Broker,
) -> None:
    async with serving(own.url) as api:
        await until_connected(api, is_there=True)
        assert (await send(api, "POST", "/api/v1/gpu-units", UNIT))[0] == 201
        assert (await send(api, "POST", INVOCATIONS, {**SYNC, "mode": "async"}))[0] == 202
        own.kill()
        await until_connected(api, is_there=False)
        status, refusal = await send(api, "POST", INVOCATIONS, SYNC)
        assert (status, refusal["error"]["code"]) == (503, "service_unavailable")
        assert (await send(api, "GET", "/api/v1/gpu-units/echo"))[0] == 200
        own.start()
        await until_connected(api, is_there=True)
        query = "?serverlessRequestID=echo"
        assert (await send(api, "GET", f"{INVOCATIONS}/one{query}"))[0] == 200


async def test_a_waiting_synchronous_call_does_not_keep_the_api_from_stopping(
    own: Broker,
) -> None:
    async with serving(own.url) as api, asyncio.TaskGroup() as tasks:
        await until_connected(api, is_there=True)
        await send(api, "POST", "/api/v1/gpu-units", UNIT)
        waiting = tasks.create_task(send(api, "POST", INVOCATIONS, SYNC))
        await until_accepted(api)
        async with asyncio.timeout(5):
            await api.drain()
        status, answer = await waiting
        assert (status, answer["data"]["state"]) == (202, "queued")


async def test_an_empty_broker_url_turns_serverless_off_and_nothing_else() -> None:
    async with serving("") as api:
        await until_connected(api, is_there=False)
        status, refusal = await send(api, "POST", INVOCATIONS, SYNC)
        assert (status, "nats.url" in refusal["error"]["message"]) == (503, True)
