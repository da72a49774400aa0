"""WebSockets pass as bytes; each side slows the other, and an end of either ends both."""

import asyncio
import gc
import inspect
from contextlib import suppress
from typing import Any, Final

import aiohttp
import pytest
from aiohttp import web

from gpuruntime.gateway.splice import are_control_frames
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.settings.gateway import GatewayByteSettings, GatewayTimeSettings
from gpuruntime.strict.durations import Seconds
from gpuruntime.tickets.tokens import TokenType
from tests.eventually import eventually
from tests.rooms.gateway.service import DEMO, Caller, gateway, host_of, upstream
from tests.rooms.gateway.visitors import ticket, unit

BEARER: Final = {"Authorization": f"Bearer {ticket(DEMO)}"}
SESSION: Final = {"Cookie": f"__Host-gpuruntime={ticket(DEMO, TokenType.SESSION)}"}
MIB: Final = 1024 * 1024


async def echo(request: web.Request) -> web.StreamResponse:
    socket = web.WebSocketResponse(max_msg_size=0, protocols=("chat",))
    await socket.prepare(request)
    async for message in socket:
        if message.data == "close":
            await socket.close(code=4000, message=b"as asked")
        elif message.data == "headers":
            await socket.send_json(dict(request.headers))
        elif message.type is aiohttp.WSMsgType.TEXT:
            await socket.send_str(message.data)
        else:
            await socket.send_bytes(message.data)
    return socket


async def test_messages_of_any_size_pass_both_ways_and_so_does_the_close() -> None:
    async with (
        upstream(echo) as port,
        gateway(port) as caller,
        caller.web_socket(headers=BEARER, compress=15) as socket,
    ):
        await socket.send_str("hello")
        assert await socket.receive_str() == "hello"
        await socket.send_bytes(bytes(8 * MIB))
        assert len(await socket.receive_bytes()) == 8 * MIB
        await socket.send_str("close")
        assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
        assert socket.close_code == 4000
        await eventually(lambda: len(caller.world.connections), lambda count: count == 0)


async def test_a_ticket_as_sub_protocol_is_neither_sent_on_nor_echoed() -> None:
    token = ticket(DEMO)
    protocols = (f"gpuruntime.ticket.{token}", "chat")
    async with (
        upstream(echo) as port,
        gateway(port) as caller,
        caller.web_socket(protocols=protocols) as socket,
    ):
        assert socket.protocol == "chat"
        await socket.send_str("headers")
        seen = await socket.receive_json()
    assert seen["Sec-WebSocket-Protocol"] == "chat"
    assert token not in str(seen)
    assert seen["Host"] == host_of()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({**SESSION, "Origin": f"https://{host_of()}"}, 101, id="the own page"),
        pytest.param({**SESSION, "Origin": "https://evil.org"}, 403, id="a stranger"),
        pytest.param(
            {**SESSION, "Origin": f"https://{host_of(unit('other'))}"}, 403, id="another unit"
        ),
        pytest.param(SESSION, 403, id="no origin at all"),
        pytest.param({**BEARER, "Origin": "https://evil.org"}, 101, id="a ticket, from anywhere"),
        pytest.param({}, 401, id="no ticket"),
    ],
)
async def test_a_session_opens_a_web_socket_from_its_own_page_alone(
    headers: dict[str, str], status: int
) -> None:
    async def opened(caller: Caller) -> int:
        try:
            async with caller.web_socket(headers=headers):
                return 101
        except aiohttp.WSServerHandshakeError as error:
            return error.status

    async with upstream(echo) as port, gateway(port) as caller:
        assert await opened(caller) == status


@pytest.mark.parametrize(
    "now",
    [
        pytest.param(unit("demo", generation=1), id="revoked"),
        pytest.param(unit("demo", suspended=True), id="suspended"),
        pytest.param(None, id="deleted"),
        pytest.param(unit("demo", uid="again"), id="created again"),
    ],
)
async def test_the_event_of_the_watch_ends_an_open_web_socket(now: GPUUnit | None) -> None:
    async with (
        upstream(echo) as port,
        gateway(port) as caller,
        caller.web_socket(headers=BEARER) as socket,
    ):
        if now is None:
            caller.world.delete(DEMO)
        else:
            caller.world.put(now)
        message = await socket.receive(timeout=5)
        ends = (aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR, aiohttp.WSMsgType.CLOSE)
        assert message.type in ends
        await eventually(lambda: len(caller.world.connections), lambda count: count == 0)


async def test_a_refusal_of_the_unit_has_its_status() -> None:
    async def refuse(_: web.Request) -> web.Response:
        return web.Response(status=418)

    async with upstream(refuse) as port, gateway(port) as caller:
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await caller.web_socket(headers=BEARER)
    assert caught.value.status == 418


@pytest.mark.parametrize("side", ["caller", "unit"])
async def test_a_slow_side_pauses_the_other(side: str) -> None:
    """The sender stops at the bytes that the sockets and the gateway hold."""
    sent = [0]
    over = asyncio.Event()

    async def pour(socket: Any) -> None:
        while not over.is_set():
            await socket.send_bytes(bytes(MIB))
            sent[0] += 1

    async def serve(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        if side == "caller":
            task = asyncio.ensure_future(pour(socket))
            await over.wait()
            task.cancel()
        else:
            assert request.transport is not None
            await asyncio.sleep(0)
            request.transport.pause_reading()
            await over.wait()
            request.transport.resume_reading()
        return socket

    async with (
        upstream(serve) as port,
        gateway(port) as caller,
        caller.web_socket(headers=BEARER) as socket,
    ):
        if side == "caller":
            connection = socket.get_extra_info("socket")
            assert connection is not None
            socket._response.connection.transport.pause_reading()
            pouring = None
        else:
            pouring = asyncio.ensure_future(pour(socket))
        before = -1
        for _ in range(50):
            await asyncio.sleep(0.1)
            if sent[0] == before:
                break
            before = sent[0]
        assert sent[0] < 30, "megabytes beyond what kernels hold for two connections"
        over.set()
        if pouring is not None:
            pouring.cancel()
        if side == "caller":
            socket._response.connection.transport.abort()


async def test_a_unit_that_does_not_answer_leaves_no_error_behind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Otherwise a tenant could fill the log with errors of asyncio."""

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    silent = await asyncio.start_server(wait, "127.0.0.1", 0)
    port, times = silent.sockets[0].getsockname()[1], GatewayTimeSettings(head=Seconds(0.1))
    async with silent, gateway(port, time=times) as caller:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
            await caller.web_socket(headers=BEARER)
        assert refusal.value.status == 504
    gc.collect()
    assert "never retrieved" not in caplog.text


def stops_reading(socket: aiohttp.ClientWebSocketResponse) -> asyncio.Transport:
    """Let the caller take no more bytes, and return its end of the connection."""
    connection = socket._response.connection
    assert connection is not None
    assert isinstance(connection.transport, asyncio.Transport)
    connection.transport.pause_reading()
    return connection.transport


async def test_a_revocation_ends_a_web_socket_whose_caller_takes_nothing() -> None:
    """Its bytes would go on to the unit meanwhile."""
    is_over = asyncio.Event()

    async def pour(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        with suppress(ConnectionError):
            while True:
                await socket.send_bytes(bytes(MIB))
        is_over.set()
        return socket

    async with (
        upstream(pour) as port,
        gateway(port) as caller,
        caller.web_socket(headers=BEARER) as socket,
    ):
        await socket.receive_bytes()
        transport = stops_reading(socket)
        await asyncio.sleep(0.5)
        assert not is_over.is_set()
        caller.world.put(unit(generation=1))
        await eventually(lambda: len(caller.world.connections), lambda count: count == 0)
        async with asyncio.timeout(5):
            await is_over.wait()
        transport.abort()


async def test_a_web_socket_counts_until_its_caller_has_taken_the_last_bytes() -> None:
    """Its buffers stay, and limits on connections are limits on their memory."""

    is_sent = asyncio.Event()

    async def leave(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_bytes(bytes(32 * MIB))  # kernels hold a few megabytes of them
        assert request.transport is not None
        request.transport.close()
        is_sent.set()
        return socket

    room = GatewayByteSettings(buffered=64 * MIB)
    async with (
        upstream(leave) as port,
        gateway(port, bytes=room) as caller,
        caller.web_socket(headers=BEARER) as socket,
    ):
        transport = stops_reading(socket)
        await is_sent.wait()
        await asyncio.sleep(0.5)
        assert len(caller.world.connections) == 1
        caller.world.put(unit(generation=1))
        await eventually(lambda: len(caller.world.connections), lambda count: count == 0)
        transport.abort()


async def test_a_units_messages_and_the_answers_to_its_pings_are_no_activity() -> None:
    async def speak(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(autoping=False)
        await socket.prepare(request)
        await socket.ping(b"are you there")
        async for message in socket:
            await socket.send_str(message.type.name)
        return socket

    async with (
        upstream(speak) as port,
        gateway(port) as caller,
        caller.web_socket(headers=BEARER) as socket,
    ):
        (opened,) = caller.world.connections.activity().values()
        assert await socket.receive_str() == "PONG"
        assert caller.world.connections.activity() == {DEMO.metadata.uid: opened}
        await socket.send_str("hello")
        assert await socket.receive_str() == "TEXT"
        ((last, _),) = caller.world.connections.activity().values()
        assert last > opened[0]


async def test_an_answer_that_goes_on_is_no_activity() -> None:
    more = asyncio.Event()

    async def serve(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"first")
        await more.wait()
        await response.write(b"second")
        return response

    async with (
        upstream(serve) as port,
        gateway(port) as caller,
        caller.request("GET", "/", headers=BEARER) as answer,
    ):
        (opened,) = caller.world.connections.activity().values()
        assert await answer.content.readexactly(5) == b"first"
        more.set()
        assert await answer.read() == b"second"
        ((last, _),) = caller.world.connections.activity().values()
        assert last == opened[0]


def masked(opcode: int, payload: bytes) -> bytes:
    return bytes((0x80 | opcode, 0x80 | len(payload))) + b"mask" + payload


@pytest.mark.parametrize(
    ("data", "is_only_control"),
    [
        pytest.param(masked(10, b""), True, id="a pong"),
        pytest.param(masked(9, b"p" * 125), True, id="a ping"),
        pytest.param(masked(10, b"a") + masked(8, b"bb"), True, id="a pong and a close"),
        pytest.param(masked(1, b""), False, id="an empty text"),
        pytest.param(masked(10, b"") + masked(2, b"x"), False, id="a pong and bytes"),
        pytest.param(masked(10, b"abc")[:-1], False, id="a part of a pong"),
        pytest.param(b"\x8a\x03abc", False, id="unmasked"),
        pytest.param(b"", True, id="nothing"),
    ],
)
def test_pings_pongs_and_closes_are_no_activity(data: bytes, is_only_control: bool) -> None:
    assert are_control_frames(data) is is_only_control


def test_aiohttp_has_the_seam_that_a_splice_uses() -> None:
    """aiohttp's own WebSockets use it: after `set_parser`, bytes go to `feed_data`."""
    assert list(inspect.signature(web.RequestHandler.set_parser).parameters) == [
        "self",
        "parser",
        "data_received_cb",
    ]
    assert "self._payload_parser.feed_data(data)" in inspect.getsource(
        web.RequestHandler.data_received
    )
