"""Bodies that do not come, or hardly, and their effect on other requests."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from gpuruntime.api.errors import NotServingError
from gpuruntime.api.http.body import Bodies, BodyLimits
from tests.options import configured
from tests.rooms.api.service import UNITS, Service, service
from tests.rooms.operations.cluster import Cluster

pytestmark = pytest.mark.looptime

LIMITS = configured(BodyLimits)
HEALTH = "/api/v1/health"
# Bytes arrive at once, and the loop's clock advances only while all tasks wait.
NEAR = 1.0
LENGTH = 100


@attrs.define
class Sender:
    """Sends a body byte by byte; `received` is the whole answer."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    seconds: float = 0.0
    received: bytes = b""

    async def send(self, count: int, *, pause: float) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with asyncio.timeout(600), asyncio.TaskGroup() as tasks:
            dribble = tasks.create_task(self._dribble(count, pause), name="dribble")
            self.received = await self.reader.readuntil(b"}}")
            self.seconds = loop.time() - began
            dribble.cancel()

    async def seconds_to_the_end(self) -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with asyncio.timeout(600):
            await self.reader.read(-1)
        return loop.time() - began

    async def _dribble(self, count: int, pause: float) -> None:
        for _ in range(count):
            self.writer.write(b" ")
            await asyncio.sleep(pause)


@asynccontextmanager
async def sender(api: Service) -> AsyncIterator[Sender]:
    assert api.client.port
    reader, writer = await asyncio.open_connection("127.0.0.1", api.client.port)
    writer.write(
        b"POST %s HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n" % (UNITS.encode(), LENGTH)
    )
    try:
        yield Sender(reader, writer)
    finally:
        writer.close()


@pytest.fixture
async def api() -> AsyncIterator[Service]:
    async with service(Cluster(), most_requests=2) as served:
        yield served
        assert served.replica.transport.written() == []


async def test_a_body_that_stops_is_408_and_ends_the_connection(
    api: Service,
) -> None:
    async with sender(api) as slow:
        await slow.send(3, pause=1.0)
        assert slow.seconds == pytest.approx(2.0 + LIMITS.idle_seconds, abs=NEAR)
        assert slow.received.startswith(b"HTTP/1.1 408 ")
        assert b"Connection: close\r\n" in slow.received
        assert b'"code":"body_timeout"' in slow.received
        assert b"no byte of the body came" in slow.received
        assert await slow.seconds_to_the_end() < NEAR


async def test_a_dripping_body_gets_no_more_time_than_any_other(
    api: Service,
) -> None:
    async with sender(api) as slow:
        await slow.send(LENGTH - 1, pause=LIMITS.idle_seconds - 1)
        assert slow.seconds == pytest.approx(LIMITS.longest_seconds, abs=NEAR)
        assert slow.received.startswith(b"HTTP/1.1 408 ")
        assert b"did not come within" in slow.received
        assert await slow.seconds_to_the_end() < NEAR


async def test_a_slow_body_within_its_time_is_read(api: Service) -> None:
    async with sender(api) as slow:
        await slow.send(LENGTH, pause=(LIMITS.longest_seconds - 1) / LENGTH)
        assert slow.received.startswith(b"HTTP/1.1 400 ")


async def test_incomplete_bodies_beyond_the_limit_are_503() -> None:
    bodies, held = Bodies(configured(BodyLimits, most_bytes=LENGTH)), asyncio.Event()

    async def read(request: web.Request) -> web.Response:
        try:
            return web.Response(text=str(len(await bodies.read(request))))
        except NotServingError:
            held.set()
            return web.Response(status=503)

    app = web.Application()
    app.router.add_post("/", read)
    async with TestClient(TestServer(app)) as client:
        slow = asyncio.Event()

        async def dribble() -> AsyncIterator[bytes]:
            yield b" " * (LENGTH - 1)
            await slow.wait()

        async with asyncio.TaskGroup() as tasks:
            first = tasks.create_task(client.post("/", data=dribble()), name="first")
            await asyncio.sleep(NEAR)
            assert (await client.post("/", data=b"  ")).status == 503
            slow.set()
        assert held.is_set()
        assert await first.result().text() == str(LENGTH - 1)
        assert (await client.post("/", data=b" " * LENGTH)).status == 200


async def test_requests_beyond_the_limit_are_503_until_some_end(
    api: Service,
) -> None:
    async with sender(api) as one, sender(api) as other:
        async with asyncio.TaskGroup() as tasks:
            for slow in (one, other):
                tasks.create_task(slow.send(1, pause=0.0), name="send")
            await asyncio.sleep(NEAR)
            refused = await api.call("GET", UNITS)
            assert (refused.status, refused.code) == (503, "service_unavailable")
            assert int(refused.headers["Retry-After"]) >= 1
            assert (await api.call("GET", HEALTH)).status == 200
        assert (await api.call("GET", UNITS)).status == 200
