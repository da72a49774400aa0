"""Callers that connect and send nothing, too little, too slowly, or too many at a time."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import TypeAlias

import pytest
from aiohttp import web

from gpuruntime.api.http.server import ConnectionLimits, ServerRunner
from tests.options import configured

pytestmark = pytest.mark.looptime

LIMITS = configured(ConnectionLimits, head_seconds=15.0, idle_seconds=75.0, most=3)
HEAD = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
BODY = b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 40\r\n\r\n"
BIG = HEAD.replace(b"GET /", b"GET /much")
# More bytes than the buffers of two sockets hold.
MUCH = 32 * 2**20
# Bytes arrive at once, and the loop's clock advances only while all tasks wait.
NEAR = 1.0

Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect: TypeAlias = Callable[[], Awaitable[Streams]]


async def _much(_: web.Request) -> web.Response:
    return web.Response(body=b"a" * MUCH)


async def _echo(request: web.Request) -> web.Response:
    return web.Response(body=await request.read() or b"none")


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    app = web.Application()
    app.router.add_route("*", "/", _echo)
    app.router.add_route("GET", "/much", _much)
    runner = ServerRunner(app, rng=Random(1), limits=LIMITS, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made: list[Streams] = []

    async def connected() -> Streams:
        made.append(await asyncio.open_connection(*runner.addresses[0]))
        return made[-1]

    try:
        yield connected
    finally:
        for _, writer in made:
            writer.close()
        await runner.cleanup()


async def answered(streams: Streams, sent: bytes) -> bytes:
    reader, writer = streams
    writer.write(sent)
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    return head.split(b" ")[1] + b" " + await reader.readexactly(length)


async def seconds_to_the_end(streams: Streams, sent: bytes = b"", *, pause: float = 0.0) -> float:
    """Send the bytes one by one; return the seconds until the server closes the connection."""
    reader, writer = streams
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with asyncio.timeout(600), asyncio.TaskGroup() as tasks:
        dribble = tasks.create_task(_dribble(writer, sent, pause), name="dribble")
        with suppress(ConnectionError):
            await reader.read(-1)
        dribble.cancel()
    return loop.time() - began


async def _dribble(writer: asyncio.StreamWriter, sent: bytes, pause: float) -> None:
    for byte in sent:
        writer.write(bytes((byte,)))
        await asyncio.sleep(pause)


async def test_a_connection_without_a_request_is_ended(connect: Connect) -> None:
    taken = await seconds_to_the_end(await connect())
    assert taken == pytest.approx(LIMITS.idle_seconds, abs=NEAR)


async def test_a_dripping_head_gets_no_more_time_than_any_other(
    connect: Connect,
) -> None:
    taken = await seconds_to_the_end(await connect(), HEAD, pause=2.0)
    assert taken == pytest.approx(LIMITS.head_seconds, abs=NEAR)


async def test_a_kept_connection_has_the_idle_time_for_its_next_request(
    connect: Connect,
) -> None:
    streams = await connect()
    assert await answered(streams, HEAD) == b"200 none"
    await asyncio.sleep(LIMITS.idle_seconds - NEAR)
    assert await answered(streams, HEAD) == b"200 none"
    taken = await seconds_to_the_end(streams)
    assert taken == pytest.approx(LIMITS.idle_seconds, abs=NEAR)


async def test_the_next_head_on_a_kept_connection_has_its_time_from_its_first_byte(
    connect: Connect,
) -> None:
    streams = await connect()
    assert await answered(streams, HEAD) == b"200 none"
    await asyncio.sleep(30.0)
    taken = await seconds_to_the_end(streams, HEAD, pause=2.0)
    assert taken == pytest.approx(LIMITS.head_seconds, abs=NEAR)


async def test_a_caller_that_does_not_take_its_answer_is_cut_off(
    connect: Connect,
) -> None:
    reader, writer = await connect()
    writer.write(BIG)
    writer.transport.pause_reading()  # type: ignore[attr-defined]  # it is a socket's
    await asyncio.sleep(LIMITS.answer_seconds - NEAR)
    await asyncio.sleep(2 * NEAR)
    writer.transport.resume_reading()  # type: ignore[attr-defined]  # as above
    received = 0
    with suppress(ConnectionError):
        while piece := await reader.read(2**20):
            received += len(piece)
    assert 0 < received < MUCH


async def test_a_slow_body_does_not_count_as_a_late_head(connect: Connect) -> None:
    streams = await connect()
    streams[1].write(BODY)
    for _ in range(39):
        await asyncio.sleep(1.0)
        streams[1].write(b"x")
    assert await answered(streams, b"x") == b"200 " + b"x" * 40


async def test_a_connection_beyond_the_limit_is_503_until_one_closes(
    connect: Connect,
) -> None:
    held = [await connect() for _ in range(LIMITS.most)]
    assert await answered(held[0], HEAD) == b"200 none"
    reader, _ = await connect()
    head, _, body = (await reader.read(-1)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    assert b"Retry-After: " in head
    assert json.loads(body)["error"]["code"] == "service_unavailable"

    held[1][1].close()
    await asyncio.sleep(NEAR)
    assert await answered(await connect(), HEAD) == b"200 none"
