"""Hostile bytes: heads, targets and frames that two servers might read in two ways."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from gpuruntime.settings.gateway import GatewayByteSettings, GatewayTimeSettings
from gpuruntime.settings.values import Amount
from gpuruntime.strict.durations import Seconds
from tests.eventually import eventually
from tests.rooms.gateway.service import DEMO, gateway, host_of, upstream
from tests.rooms.gateway.test_app import echo
from tests.rooms.gateway.visitors import ticket

HOST = host_of()
TICKET = ticket(DEMO)
BEARER = f"Authorization: Bearer {TICKET}"


@pytest.mark.parametrize(
    ("head", "status"),
    [
        pytest.param(f"GET http://{HOST}/ HTTP/1.1\r\nHost: {HOST}\r\n", 400, id="absolute form"),
        pytest.param(
            f"GET http://evil.org/ HTTP/1.1\r\nHost: {HOST}\r\n", 400, id="absolute, another host"
        ),
        pytest.param(f"OPTIONS * HTTP/1.1\r\nHost: {HOST}\r\n", 400, id="asterisk form"),
        pytest.param(f"CONNECT {HOST}:443 HTTP/1.1\r\nHost: {HOST}\r\n", 400, id="CONNECT"),
        pytest.param("GET / HTTP/1.1\r\n", 400, id="no Host"),
        pytest.param("GET / HTTP/1.0\r\n", 400, id="no Host in HTTP/1.0"),
        pytest.param(f"GET / HTTP/1.1\r\nHost: {HOST}\r\nHost: {HOST}\r\n", 400, id="two hosts"),
        pytest.param("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n", 421, id="an address"),
        pytest.param(f"GET / HTTP/1.1\r\nHost: {HOST}.\r\n", 421, id="a trailing dot"),
        pytest.param(f"GET / HTTP/1.1\r\nHost: {HOST.upper()}\r\n", 421, id="upper case"),
        pytest.param(
            f"POST / HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 5\r\n"
            "Transfer-Encoding: chunked\r\n",
            400,
            id="two framings",
        ),
        pytest.param(
            f"POST / HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 5\r\nContent-Length: 6\r\n",
            400,
            id="two lengths",
        ),
        pytest.param(
            f"POST / HTTP/1.1\r\nHost: {HOST}\r\nTransfer-Encoding: chunked, identity\r\n",
            400,
            id="another last encoding",
        ),
        pytest.param(
            f"GET / HTTP/1.1\r\nHost: {HOST}\r\nX: a\r\n b\r\n", 400, id="a folded header"
        ),
        pytest.param(
            f"GET / HTTP/1.1\r\nHost: {HOST}\r\nX : a\r\n", 400, id="a blank before the colon"
        ),
        pytest.param(
            f"GET / HTTP/1.1\r\nHost: {HOST}\r\n"
            + f"X: {'a' * 8000}\r\n" * 4
            + f"Y: {'b' * 1400}\r\n",
            431,
            id="a head of 33 KiB",
        ),
        pytest.param(
            f"GET /{'a' * 9000} HTTP/1.1\r\nHost: {HOST}\r\n", 400, id="a long request line"
        ),
    ],
)
async def test_a_request_with_two_readings_reaches_no_unit(head: str, status: int) -> None:
    async with upstream(echo) as port, gateway(port) as caller:
        answer = await caller.raw(f"{head}{BEARER}\r\nConnection: close\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1."), answer
        assert int(answer.split(b" ", 2)[1]) == status
        assert caller.world.mapped == []


async def test_another_upgrade_is_a_request_as_any() -> None:
    async with upstream(echo) as port, gateway(port) as caller:
        head = f"GET / HTTP/1.1\r\nHost: {HOST}\r\n{BEARER}\r\n"
        upgrade = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n"
        answer = await caller.raw((head + upgrade + "\r\n").encode())
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"HTTP2-Settings" not in answer
    assert b"h2c" not in answer


@asynccontextmanager
async def raw_unit(answer: bytes) -> AsyncIterator[int]:
    """Run a unit that answers each request's head with these bytes, and closes. Yield its port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        pytest.param(b"HTTP/1.1 101 Switching Protocols\r\n\r\n", 502, id="101 without a request"),
        pytest.param(b"HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n", 502, id="an odd status"),
        pytest.param(b"garbage\r\n\r\n", 502, id="no HTTP"),
        pytest.param(b"", 502, id="nothing"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
            502,
            id="two lengths",
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\nab",
            502,
            id="two framings",
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70_000 + b"\r\n\r\n", 502, id="an endless head"
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX\x00Y: a\r\n\r\n", 502, id="a bad header"
        ),
    ],
)
async def test_an_answer_with_two_readings_is_a_fault_of_the_unit(
    answer: bytes, status: int
) -> None:
    async with raw_unit(answer) as port, gateway(port) as caller:
        headers = {"Authorization": f"Bearer {TICKET}"}
        async with caller.request("POST", "/", headers=headers) as got:
            assert got.status == status
            assert (await got.json())["error"]["code"] == "upstream_fault"


async def test_an_answer_that_breaks_off_ends_as_a_broken_connection() -> None:
    cut = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"
    async with raw_unit(cut) as port, gateway(port) as caller:
        headers = {"Authorization": f"Bearer {TICKET}"}
        async with caller.request("GET", "/", headers=headers) as answer:
            assert answer.status == 200
            with pytest.raises(aiohttp.ClientError):
                await answer.read()


@pytest.mark.parametrize(
    ("method", "body", "times"), [("GET", b"", 2), ("HEAD", b"", 2), ("POST", b"x", 1)]
)
async def test_only_a_read_on_a_kept_connection_is_repeated(
    method: str, body: bytes, times: int
) -> None:
    """The unit closes its kept connection when the second request comes."""
    requests: list[tuple[int, str]] = []
    connections: list[object] = []

    async def serve(request: web.Request) -> web.Response:
        if request.transport not in connections:
            connections.append(request.transport)
        number = connections.index(request.transport)
        requests.append((number, request.path))
        if number == 0 and request.path == "/again":
            assert request.transport is not None
            request.transport.abort()
        return web.Response(text="ok")

    headers = {"Authorization": f"Bearer {TICKET}"}
    async with upstream(serve) as port, gateway(port) as caller:
        async with caller.request("GET", "/", headers=headers) as answer:
            assert answer.status == 200
            await answer.read()
        async with caller.request(method, "/again", headers=headers, data=body or None) as answer:
            assert answer.status == 200
        asked = [path for _, path in requests if path == "/again"]
        assert len(asked) == times
        if method == "POST":
            assert connections.index(connections[-1]) == 1, "a connection of its own"


async def counted(body: aiohttp.StreamReader, sizes: list[int]) -> None:
    """Add the size of each piece of a body, also if it breaks off."""
    while data := await body.readany():
        sizes += (len(data),)


@asynccontextmanager
async def settled() -> AsyncIterator[None]:
    """Wait after the block until servers have noticed the ends of their connections."""
    before = asyncio.all_tasks()
    yield
    await eventually(lambda: asyncio.all_tasks() - before, lambda left: not left)


async def test_an_answer_without_end_is_cut_at_the_most_bytes_of_a_body() -> None:
    async def serve(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(bytes(16_384))

    most = GatewayByteSettings(upload=Amount("1Mi"))
    async with settled(), upstream(serve) as port, gateway(port, bytes=most) as caller:
        headers = {"Authorization": f"Bearer {TICKET}"}
        async with caller.request("GET", "/", headers=headers) as answer:
            assert answer.status == 200
            received: list[int] = []
            with pytest.raises(aiohttp.ClientError):
                await counted(answer.content, received)
        assert 0 < sum(received) <= 1024 * 1024
        await eventually(lambda: len(caller.world.connections), lambda count: count == 0)


async def test_an_upload_without_end_is_refused_at_the_most_bytes_of_a_body() -> None:
    taken: list[int] = []

    async def serve(request: web.Request) -> web.Response:
        await counted(request.content, taken)
        return web.Response(text="it ended")

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield bytes(16_384)

    most = GatewayByteSettings(upload=Amount("1Mi"))
    async with settled(), upstream(serve) as port, gateway(port, bytes=most) as caller:
        headers = {"Authorization": f"Bearer {TICKET}"}
        async with caller.request("POST", "/", headers=headers, data=endless()) as answer:
            assert answer.status == 413
            assert (await answer.json())["error"]["code"] == "body_too_large"
        assert 0 < sum(taken) <= 1024 * 1024
        await eventually(lambda: len(caller.world.connections), lambda count: count == 0)


@pytest.mark.parametrize("side", ["an answer", "an upload"])
async def test_a_body_that_trickles_without_end_is_cut_when_its_time_is_over(side: str) -> None:
    async def serve(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        if side == "an answer":
            await response.prepare(request)
            while True:
                await response.write(b".")
                await asyncio.sleep(0.02)
        await request.read()
        return response

    async def trickle() -> AsyncIterator[bytes]:
        while True:
            yield b"."
            await asyncio.sleep(0.02)

    times = GatewayTimeSettings(longest=Seconds(1.0))
    async with settled(), upstream(serve) as port, gateway(port, time=times) as caller:
        headers = {"Authorization": f"Bearer {TICKET}"}
        if side == "an answer":
            async with caller.request("GET", "/", headers=headers) as answer:
                with pytest.raises(aiohttp.ClientError):
                    await answer.read()
        else:
            async with caller.request("POST", "/", headers=headers, data=trickle()) as answer:
                assert (answer.status, (await answer.json())["error"]["code"]) == (504, "timeout")
        await eventually(lambda: len(caller.world.connections), lambda count: count == 0)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        pytest.param(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
            b"Connection: Upgrade\r\n\r\nbytes of another protocol",
            502,
            id="to a request without Upgrade",
        ),
        pytest.param(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
            502,
            id="to h2c",
        ),
    ],
)
async def test_a_unit_that_switches_protocols_unasked_is_a_fault(head: bytes, status: int) -> None:
    async with raw_unit(head) as port, gateway(port) as caller:
        for extra in ("", "Connection: Upgrade\r\nUpgrade: h2c\r\n"):
            asked = f"GET / HTTP/1.1\r\nHost: {HOST}\r\n{BEARER}\r\n{extra}\r\n"
            answer = await caller.raw(asked.encode())
            assert int(answer.split(b" ", 2)[1]) == status
            assert b"another protocol" not in answer
