"""Streams of the console: their events, their readers, their limits and their ends."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
from aiohttp import ClientResponse, web
from aiohttp.test_utils import TestServer

from gpuruntime.api.auth.access import Principal, Role
from gpuruntime.api.auth.tokens import TokenGuard
from gpuruntime.api.cluster_link import ClusterLink
from gpuruntime.api.console.streams import HEARTBEAT, Changes, StreamLimits, Streams
from gpuruntime.models.kinds.units import GPU_UNITS
from tests.rooms.api.service import POOLS, STORAGES, UNITS, WELL, Service, service, unit_order
from tests.rooms.operations.cluster import INSTANCE, Cluster

pytestmark = pytest.mark.looptime

EVENTS = "/console/events"
PRINCIPALS = (
    Principal(name="root", role=Role.OPERATOR),
    Principal(name="screen", role=Role.VIEWER),
    Principal(name="a", role=Role.TENANT, tenants=frozenset({"a"})),
)
TABLE = {hashlib.sha256(who.name.encode()).digest(): who for who in PRINCIPALS}


def bearer(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name}"} if name else {}


@attrs.define
class Reader:
    response: ClientResponse
    _held: bytes = b""

    async def block(self) -> bytes:
        """Return the next event or comment, or nothing at the end."""
        async with asyncio.timeout(60):
            while b"\n\n" not in self._held:
                chunk = await self.response.content.readany()
                if not chunk:
                    return b""
                self._held += chunk
        block, _, self._held = self._held.partition(b"\n\n")
        return block

    async def event(self) -> tuple[str, Any]:
        name, _, data = (await self.block()).partition(b"\n")
        assert name.startswith(b"event: "), name
        return name[7:].decode(), json.loads(data.removeprefix(b"data: "))

    async def names(self) -> list[str]:
        names: list[str] = (await self.event())[1]["names"]
        return names


@asynccontextmanager
async def reading(api: Service, path: str, who: str = "") -> AsyncIterator[Reader]:
    async with api.client.get(f"{EVENTS}/{path}", headers=bearer(who)) as response:
        assert response.status == 200, await response.text()
        yield Reader(response)


async def status(api: Service, path: str, who: str = "") -> int:
    async with api.client.get(f"{EVENTS}/{path}", headers=bearer(who)) as response:
        return response.status


@pytest.fixture
async def stocked() -> Cluster:
    cluster = Cluster()
    cluster.add_stock(3)
    return cluster


@pytest.fixture
async def api(stocked: Cluster) -> AsyncIterator[Service]:
    async with service(stocked) as served:
        yield served


@pytest.fixture
async def guarded(stocked: Cluster) -> AsyncIterator[Service]:
    async with service(stocked, guard=TokenGuard(lambda: TABLE)) as served:
        yield served


async def test_a_stream_sends_the_page_and_then_its_changes(api: Service) -> None:
    await api.create("one", name="b")
    async with reading(api, "units") as reader:
        assert reader.response.content_type == "text/event-stream"
        assert reader.response.headers["Cache-Control"] == "no-store"
        name, told = await reader.event()
        assert (name, told["names"], told["put"][0]["name"]) == ("page", ["b"], "b")
        unit = (await api.call("GET", f"{UNITS}/b")).data
        row = told["put"][0]
        assert (row["isWorker"], row["function"]) == (False, "")
        rest = {name: value for name, value in row.items() if name in unit}
        assert rest == {name: unit[name] for name in rest}

        await api.create("two", name="a")
        name, told = await reader.event()
        assert (name, told["names"]) == ("change", ["a", "b"])
        assert [each["name"] for each in told["put"]] == ["a"]

        await api.call("DELETE", f"{UNITS}/b")
        assert await reader.names() == ["a"]


async def test_simultaneous_changes_come_in_one_event(api: Service) -> None:
    async with reading(api, "stock") as reader:
        await reader.event()
        for name in ("one", "two", "three"):
            await api.create(name, name=name)
        told = [await reader.event()]
        while sum(len(each["put"]) for _, each in told) < 3:
            told.append(await reader.event())
        assert len(told) <= 2
        assert {row["stock"] for _, each in told for row in each["put"]} == {"claimed"}


async def test_a_live_list_has_the_filters_and_pages_of_its_route(api: Service) -> None:
    for name in ("a", "b", "c"):
        await api.create(name, name=name)
    async with reading(api, "units?limit=2&phase=Progressing") as reader:
        _, told = await reader.event()
        assert told["names"] == ["a", "b"]
    async with reading(api, f"units?limit=2&cursor={told['next']}") as reader:
        _, told = await reader.event()
        assert (told["names"], told["next"]) == (["c"], "")
    for bad in ("units?limit=201", "units?cursor=x", "units?phase=Odd", "stock?tenant=a"):
        assert await status(api, bad) == 400, bad


async def test_every_list_has_a_stream(api: Service) -> None:
    pool = {"operationID": "p", "name": "warm", "specName": "g2.1", "replicas": 0}
    await api.call("POST", POOLS, pool)
    await api.call("POST", STORAGES, {"name": "models", "size": "1Gi"})
    for path, names in (
        ("pools", ["warm"]),
        ("storages", ["models"]),
        ("stock", ["p-1", "p-2", "p-3"]),
        ("units", []),
    ):
        async with reading(api, path) as reader:
            assert await reader.names() == names


async def test_a_stream_includes_the_fleets_counts_on_request(api: Service) -> None:
    async with reading(api, "units?fleet=true") as reader:
        name, fleet = await reader.event()
        assert name == "fleet"
        assert fleet["specs"][0]["stock"]["available"] == 3
        assert (await reader.event())[0] == "page"
        await api.create("one", name="a")
        told = dict([await reader.event(), await reader.event()])
        assert told["fleet"]["specs"][0]["stock"]["claimed"] == 1
    async with reading(api, "fleet") as reader:
        assert (await reader.event())[0] == "fleet"


async def test_an_idle_stream_sends_heartbeats(api: Service) -> None:
    async with reading(api, "units") as reader:
        await reader.event()
        assert await reader.block() == HEARTBEAT.strip()


async def test_a_caller_that_may_not_list_may_not_watch(guarded: Service) -> None:
    for path in ("units", "stock", "pools", "storages", "fleet"):
        assert await status(guarded, path) == 401
        assert await status(guarded, path, "guessed") == 401
        assert await status(guarded, path, "screen") == 200
        is_of_tenants = path in ("units", "stock", "storages")
        assert await status(guarded, path, "a") == (200 if is_of_tenants else 403)
    for asked in ("true", "false&fleet=true", "x"):
        assert await status(guarded, f"units?fleet={asked}", "a") == 403
    assert await status(guarded, "units?fleet=false", "a") == 200


async def test_a_tenants_stream_shows_its_own_objects_only(guarded: Service) -> None:
    async with reading(guarded, "units", "a") as reader:
        assert await reader.names() == []
        for tenant in ("b", "a"):
            order = unit_order(tenant, name=f"of-{tenant}", tenant=tenant)
            await guarded.call("POST", UNITS, order, headers=bearer("root"))
        body = {"name": "of-b", "size": "1Gi", "tenant": "b"}
        await guarded.call("POST", STORAGES, body, headers=bearer("root"))
        assert await reader.names() == ["of-a"]
    async with reading(guarded, "units?tenant=b", "a") as reader:
        assert await reader.names() == []
    for path in ("storages", "stock"):
        async with reading(guarded, path, "a") as reader:
            assert await reader.names() == [], path


async def test_streams_beyond_the_limit_are_refused(stocked: Cluster) -> None:
    async with service(stocked, streams=StreamLimits(most=2)) as api, reading(api, "units"):
        async with reading(api, "stock"), api.client.get(f"{EVENTS}/pools") as response:
            assert response.status == 429
            assert int(response.headers["Retry-After"]) >= 1
        await asyncio.sleep(1)
        assert await status(api, "pools") == 200


async def test_streams_of_one_caller_are_limited(stocked: Cluster) -> None:
    limits = StreamLimits(most=9, most_each=1)
    async with (
        service(stocked, guard=TokenGuard(lambda: TABLE), streams=limits) as api,
        reading(api, "units", "a"),
    ):
        assert await status(api, "units", "a") == 429
        assert await status(api, "units", "root") == 200


async def test_streams_end_at_once_when_the_process_stops(api: Service) -> None:
    async with reading(api, "units") as reader:
        await reader.event()
        loop = asyncio.get_running_loop()
        before = loop.time()
        await api.client.server.runner.app.shutdown()  # type: ignore[union-attr]
        assert await reader.block() == b""
        assert loop.time() - before < 0.1


async def test_a_stream_ends_when_the_cluster_is_away_and_is_refused_with_the_reason(
    api: Service,
) -> None:
    async with reading(api, "units") as reader:
        await reader.event()
        api.connection = ClusterLink(error="connection refused", is_synced=True)
        assert await reader.block() == b""
    async with api.client.get(f"{EVENTS}/units") as response:
        assert response.status == 503
        assert "connection refused" in (await response.json())["error"]["message"]
    api.connection = WELL
    assert await status(api, "units") == 200


async def test_a_withdrawn_right_ends_with_its_stream(stocked: Cluster) -> None:
    table = dict(TABLE)
    limits = StreamLimits(life_seconds=30)
    async with service(stocked, guard=TokenGuard(lambda: table), streams=limits) as api:
        async with reading(api, "units", "a") as reader:
            table.clear()
            while await reader.block():
                pass
        assert await status(api, "units", "a") == 401


async def test_a_reader_that_takes_nothing_is_dropped_and_blocks_no_other(api: Service) -> None:
    """The reader's socket is full long before all events are sent."""
    streams = Streams(Changes(api.replica.context.caches), lambda: WELL, StreamLimits(most=1))
    flood = b": " + b"x" * 50_000_000

    async def handler(request: web.Request) -> web.StreamResponse:
        return await streams.serve(request, [lambda: flood])

    app = web.Application()
    app.router.add_get("/", handler)
    async with TestServer(app) as server:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1)
        writer.write(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
        await asyncio.sleep(StreamLimits().write_seconds - 1)
        assert len(streams) == 1
        await asyncio.sleep(2)
        assert len(streams) == 0
        writer.close()


async def test_a_reader_that_leaves_before_the_answer_causes_no_error(api: Service) -> None:
    streams = Streams(Changes(api.replica.context.caches), lambda: WELL)
    ends: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(2)
        response = await streams.serve(request, [lambda: b": a"])
        ends.append("well")
        return response

    app = web.Application()
    app.router.add_get("/", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    _, writer = await asyncio.open_connection(*runner.addresses[0])
    writer.write(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
    await asyncio.sleep(1)
    writer.transport.abort()
    await asyncio.sleep(2)
    await runner.cleanup()
    assert (ends, len(streams)) == (["well"], 0)


async def test_long_texts_are_shortened_in_rows(stocked: Cluster, api: Service) -> None:
    await api.create("one", name="a", template={"command": ["x" * 32_000] * 20})
    words = {
        "type": "Ready",
        "status": "False",
        "reason": "PodStartupFailed",
        "message": "y" * 9000,
    }
    moment = {"lastTransitionTime": "2025-01-01T00:00:00Z"}
    path = GPU_UNITS.path(namespace=INSTANCE, name="a", subresource="status")
    stocked.call("PATCH", path, {"status": {"conditions": [{**words, **moment}]}})
    await asyncio.sleep(1)
    async with reading(api, "units") as reader:
        block = await reader.block()
    assert b"yyy\xe2\x80\xa6" in block
    assert len(block) < 2_000


async def test_changes_outside_its_page_send_a_stream_nothing(
    stocked: Cluster, api: Service
) -> None:
    """Changes of other units are never sent, however many come."""
    await api.create("one", name="a")
    async with reading(api, "units?limit=1") as reader:
        await reader.event()
        path = GPU_UNITS.path(namespace=INSTANCE)
        for number in range(30):
            body = {
                "apiVersion": GPU_UNITS.api_version,
                "kind": "GPUUnit",
                "metadata": {"name": f"z-{number}"},
                "spec": {"specName": "g1.1"},
            }
            stocked.call("POST", path, body)
            await asyncio.sleep(0.6)
        told = [await reader.block(), await reader.block()]
        assert [b"z-" in each for each in told] == [False, False]
        assert told[1] == HEARTBEAT.strip()
