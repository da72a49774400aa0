"""WebSockets over real connections: openings, broken servers, silence, slow sides, and ends."""

import asyncio
import base64
import hashlib
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from aiohttp import web

from gpuruntime.kube.client import Client
from gpuruntime.kube.connect.sources import Kubeconfig
from gpuruntime.kube.errors import (
    KubeError,
    MalformedAnswerError,
    NotFoundError,
    OutcomeUnknownError,
    UnreachableError,
)
from gpuruntime.kube.http import LARGEST_REFUSAL, HttpTransport, connect
from gpuruntime.kube.transport import Request, Response, Socket
from gpuruntime.kube.web_socket import CLOSING_SECONDS, LARGEST_MESSAGE, SILENCE_SECONDS
from tests.eventually import equals, eventually
from tests.rooms.kube.connect.kubeconfigs import write_kubeconfig
from tests.rooms.kube.servers import serving
from tests.rooms.kube.things import KEY, THINGS, failure

PROTOCOL = "v5.channel.k8s.io"
ASK = Request(method="GET", path="/things", query=(("command", "a b"),), timeout_seconds=4.0)
HANDSHAKE = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
MOST_HELD = 512 * 1024
PIECE = bytes(32 * 1024)

Raw = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Talk = Callable[[web.WebSocketResponse], Awaitable[None]]


@asynccontextmanager
async def to(directory: Path, url: str, **user: str) -> AsyncIterator[HttpTransport]:
    config = write_kubeconfig(directory, url, user=user)
    transport = await connect(Kubeconfig(str(config)), now=lambda: datetime.now(UTC))
    try:
        yield transport
    finally:
        await transport.close()


@asynccontextmanager
async def talking(directory: Path, talk: Talk) -> AsyncIterator[Socket]:
    """Yield an open WebSocket whose server end does this."""

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = web.WebSocketResponse(protocols=(PROTOCOL,), max_msg_size=0, timeout=0.1)
        await response.prepare(request)
        await talk(response)
        return response

    async with (
        serving(handler) as url,
        to(directory, url) as transport,
        transport.socket(ASK, PROTOCOL) as socket,
    ):
        assert not isinstance(socket, Response)
        yield socket


async def silent(_: web.WebSocketResponse) -> None:
    await asyncio.Event().wait()


async def listening(web_socket: web.WebSocketResponse) -> None:
    """Receive, and answer a PING, until the client closes."""
    async for _ in web_socket:
        pass


@asynccontextmanager
async def raw_server(directory: Path, answer: Raw) -> AsyncIterator[HttpTransport]:
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        async with to(directory, f"http://127.0.0.1:{port}") as transport:
            yield transport


async def head_of(reader: asyncio.StreamReader) -> dict[str, str]:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[1:-2]
    return {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}


def accept_of(head: dict[str, str]) -> str:
    key = head["sec-websocket-key"].encode()
    return base64.b64encode(hashlib.sha1(key + HANDSHAKE).digest()).decode()


async def test_the_opening_has_credentials_query_and_protocol(tmp_path: Path) -> None:
    seen: list[web.BaseRequest] = []

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        seen.append(request)
        response = web.WebSocketResponse(protocols=(PROTOCOL,))
        await response.prepare(request)
        return response

    async with (
        serving(handler) as url,
        to(tmp_path, url, token="t0") as transport,
        transport.socket(ASK, PROTOCOL) as socket,
    ):
        assert socket.status == 101
    headers = seen[0].headers
    assert seen[0].path_qs == "/things?command=a+b"
    assert (headers["Authorization"], headers["User-Agent"]) == ("Bearer t0", "gpuruntime")
    assert headers["Sec-WebSocket-Protocol"] == PROTOCOL
    assert "Origin" not in headers


async def test_messages_pass_both_ways_until_the_server_closes(tmp_path: Path) -> None:
    async def echo(web_socket: web.WebSocketResponse) -> None:
        for _ in range(2):
            await web_socket.send_bytes(await web_socket.receive_bytes())
        await web_socket.close()

    async with talking(tmp_path, echo) as socket:
        await socket.send(b"one")
        await socket.send(b"")
        assert [await socket.receive() for _ in range(3)] == [b"one", b"", None]


async def test_a_renewed_token_opens_after_a_401(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    shown: list[str] = []

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        shown.append(request.headers["Authorization"])
        if shown[-1] != "Bearer new":
            token.write_text("new")
            return web.Response(status=401)
        response = web.WebSocketResponse(protocols=(PROTOCOL,))
        await response.prepare(request)
        return response

    async with (
        serving(handler) as url,
        to(tmp_path, url, tokenFile=str(token)) as transport,
        transport.socket(ASK, PROTOCOL) as socket,
    ):
        assert socket.status == 101
    assert shown == ["Bearer old", "Bearer new"]


async def test_a_refusal_is_an_answer_with_its_body(tmp_path: Path) -> None:
    async def handler(_: web.BaseRequest) -> web.Response:
        answer = failure(404, "NotFound", "no such thing")
        return web.Response(status=answer.status, body=answer.body)

    async with serving(handler) as url, to(tmp_path, url) as transport:
        with pytest.raises(NotFoundError, match=r"things\.test\.example/exec lab/anvil: 404"):
            async with Client(transport).socket(THINGS, KEY, "exec", (), protocol=PROTOCOL):
                pass


async def test_a_redirect_is_an_answer_and_is_not_followed(tmp_path: Path) -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        assert request.path == "/things"
        return web.Response(status=307, text="moved", headers={"Location": "/there"})

    async with (
        serving(handler) as url,
        to(tmp_path, url) as transport,
        transport.socket(ASK, PROTOCOL) as answer,
    ):
        assert isinstance(answer, Response)
        assert (answer.status, answer.body) == (307, b"moved")


async def test_a_refusal_that_never_ends_is_cut(tmp_path: Path) -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(PIECE)

    async with (
        serving(handler) as url,
        to(tmp_path, url) as transport,
        transport.socket(ASK, PROTOCOL) as answer,
    ):
        assert isinstance(answer, Response)
        assert LARGEST_REFUSAL <= len(answer.body) <= 64 * LARGEST_REFUSAL


@pytest.mark.looptime
@pytest.mark.parametrize("is_begun", [False, True], ids=["no answer", "half an answer"])
async def test_the_opening_has_a_deadline(tmp_path: Path, is_begun: bool) -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        if is_begun:
            await web.StreamResponse(status=500).prepare(request)
        await asyncio.Event().wait()
        return web.Response()

    async with serving(handler) as url, to(tmp_path, url) as transport:
        with pytest.raises(OutcomeUnknownError, match="no answer within 4 s"):
            async with transport.socket(ASK, PROTOCOL):
                pass
    assert asyncio.get_running_loop().time() == pytest.approx(4.0, abs=0.5)


def upgraded(**headers: str) -> Callable[[dict[str, str]], str]:
    def answer(head: dict[str, str]) -> str:
        shown = {
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Accept": accept_of(head),
            "Sec-WebSocket-Protocol": PROTOCOL,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        lines = [f"{name}: {value}" for name, value in shown.items() if value]
        return "\r\n".join(("HTTP/1.1 101 Switching Protocols", *lines, "", ""))

    return answer


WRONG = {
    "another key": (
        upgraded(Sec_WebSocket_Accept="AAAA"),
        "opens no WebSocket: Invalid challenge",
    ),
    "no Upgrade": (upgraded(Upgrade=""), "opens no WebSocket: Invalid upgrade"),
    "another Upgrade": (upgraded(Upgrade="SPDY/3.1"), "opens no WebSocket: Invalid upgrade"),
    "no Connection": (upgraded(Connection=""), "opens no WebSocket: Invalid connection"),
    "no protocol": (upgraded(Sec_WebSocket_Protocol=""), "does not speak v5.*Kubernetes 1.30"),
    "another protocol": (upgraded(Sec_WebSocket_Protocol="v4.channel.k8s.io"), "does not speak"),
}


@pytest.mark.parametrize(("answer", "words"), WRONG.values(), ids=WRONG)
async def test_a_101_that_opens_another_thing_is_malformed(
    tmp_path: Path, answer: Callable[[dict[str, str]], str], words: str
) -> None:
    async def raw(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(await head_of(reader)).encode())
        await reader.read()
        writer.close()

    async with raw_server(tmp_path, raw) as transport:
        with pytest.raises(MalformedAnswerError, match=words):
            async with transport.socket(ASK, PROTOCOL):
                pass


async def test_what_is_no_http_is_an_unknown_outcome(tmp_path: Path) -> None:
    async def raw(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(b"SSH-2.0-nothing\r\n\r\n")
        writer.close()

    async with raw_server(tmp_path, raw) as transport:
        with pytest.raises(OutcomeUnknownError, match="no answer"):
            async with transport.socket(ASK, PROTOCOL):
                pass


async def test_an_opening_that_dies_is_never_repeated(tmp_path: Path) -> None:
    """Even on a reused connection, where a read is repeated: the command may run."""
    seen: list[str] = []

    async def handler(request: web.BaseRequest) -> web.Response:
        seen.append(request.path)
        if request.path == "/things":
            assert request.transport is not None
            request.transport.abort()
        return web.Response()

    async with serving(handler) as url, to(tmp_path, url) as transport:
        async with transport.stream(Request(method="GET", path="/before")) as stream:
            assert [chunk async for chunk in stream.chunks()] == []
        with pytest.raises(OutcomeUnknownError, match="no answer: the connection died"):
            async with transport.socket(ASK, PROTOCOL):
                pass
    assert seen == ["/before", "/things"]


def frame(opcode: int, size: int, data: bytes = b"") -> bytes:
    return bytes((0x80 | opcode, 127)) + size.to_bytes(8, "big") + data


FRAMES: dict[str, tuple[bytes, type[KubeError], str]] = {
    "an oversize message": (frame(2, LARGEST_MESSAGE), MalformedAnswerError, "malformed"),
    "an endless message": (frame(2, 2**62), MalformedAnswerError, "malformed"),
    "a reserved opcode": (frame(11, 0), MalformedAnswerError, "malformed"),
    "a compressed message": (b"\xc2\x01a", MalformedAnswerError, "malformed"),
    "text": (b"\x81\x01a", MalformedAnswerError, "text instead of bytes"),
    "text that is no UTF-8": (b"\x81\x01\xff", MalformedAnswerError, "malformed"),
    "half a message": (frame(2, 100, b"half"), UnreachableError, "the connection ended"),
    "no end": (b"", UnreachableError, "the connection ended"),
}


@pytest.mark.parametrize(("sent", "error", "words"), FRAMES.values(), ids=FRAMES)
async def test_a_broken_frame_ends_the_socket(
    tmp_path: Path, sent: bytes, error: type[KubeError], words: str
) -> None:
    async def raw(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(upgraded()(await head_of(reader)).encode() + sent)
        writer.close()

    async with (
        raw_server(tmp_path, raw) as transport,
        transport.socket(ASK, PROTOCOL) as socket,
    ):
        assert not isinstance(socket, Response)
        with pytest.raises(error, match=words):
            await socket.receive()
        with pytest.raises(UnreachableError):
            await socket.receive()


async def test_the_largest_message_is_received(tmp_path: Path) -> None:
    async def send(web_socket: web.WebSocketResponse) -> None:
        await web_socket.send_bytes(bytes(LARGEST_MESSAGE - 1))
        await web_socket.close()

    async with talking(tmp_path, send) as socket:
        assert await socket.receive() == bytes(LARGEST_MESSAGE - 1)


@pytest.mark.looptime
async def test_a_server_that_answers_no_ping_is_given_up(tmp_path: Path) -> None:
    async with talking(tmp_path, silent) as socket:
        with pytest.raises(UnreachableError, match="no PONG within 30 s"):
            await socket.receive()
        assert asyncio.get_running_loop().time() == pytest.approx(2 * SILENCE_SECONDS, abs=1)


@pytest.mark.looptime
async def test_a_silent_server_that_answers_pings_is_kept(tmp_path: Path) -> None:
    async with talking(tmp_path, listening) as socket:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3600):
                await socket.receive()
        await socket.send(b"still open")


@pytest.mark.looptime
async def test_a_server_that_has_not_taken_the_input_owes_no_pong(tmp_path: Path) -> None:
    """A command that does not read its input keeps the server from reading, too."""
    async with talking(tmp_path, silent) as socket:
        await socket.send(b"input that waits")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3600):
                await socket.receive()


async def test_what_was_sent_arrives_before_an_orderly_end(tmp_path: Path) -> None:
    received = 0

    async def take(web_socket: web.WebSocketResponse) -> None:
        nonlocal received
        async for message in web_socket:
            received += len(message.data)

    async with talking(tmp_path, take) as socket:
        for _ in range(100):
            await socket.send(PIECE)
    await eventually(lambda: received, equals(100 * len(PIECE)))


@pytest.mark.looptime
async def test_an_orderly_end_waits_for_no_server(tmp_path: Path) -> None:
    async with talking(tmp_path, silent) as socket:
        await socket.send(b"a")
        left_at = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - left_at < CLOSING_SECONDS + 1


async def test_an_orderly_end_reads_on_where_messages_were_left(tmp_path: Path) -> None:
    async def greet(web_socket: web.WebSocketResponse) -> None:
        await web_socket.send_bytes(b"a")
        await listening(web_socket)

    async with talking(tmp_path, greet) as socket:
        assert await socket.receive() == b"a"
        left_at = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - left_at < CLOSING_SECONDS / 2


async def test_a_cancelled_block_closes_the_connection_at_once(tmp_path: Path) -> None:
    opened, closed = asyncio.Event(), asyncio.Event()
    kept: list[object] = []  # garbage collection would close it as well

    async def raw(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(upgraded()(await head_of(reader)).encode())
        opened.set()
        with suppress(ConnectionError):
            await reader.read()
        closed.set()
        writer.close()

    async with raw_server(tmp_path, raw) as transport:

        async def block() -> None:
            async with transport.socket(ASK, PROTOCOL) as socket:
                assert not isinstance(socket, Response)
                kept.append(socket)
                await socket.receive()

        async with asyncio.timeout(CLOSING_SECONDS / 2), asyncio.TaskGroup() as tasks:
            running = tasks.create_task(block())
            await opened.wait()
            await asyncio.sleep(0)
            running.cancel()
            await closed.wait()


async def test_a_send_after_the_server_has_gone_is_unreachable(tmp_path: Path) -> None:
    async def leave(web_socket: web.WebSocketResponse) -> None:
        await web_socket.close()

    async def keep_sending(socket: Socket) -> None:
        while True:
            await socket.send(PIECE)
            await asyncio.sleep(0.01)

    async with talking(tmp_path, leave) as socket:
        assert await socket.receive() is None
        with pytest.raises(UnreachableError, match="the WebSocket broke"):
            await keep_sending(socket)


async def test_a_slow_reader_holds_little_and_stops_the_server(tmp_path: Path) -> None:
    sent = 0

    async def flood(web_socket: web.WebSocketResponse) -> None:
        nonlocal sent
        with suppress(ConnectionError):
            while True:
                await web_socket.send_bytes(PIECE)
                sent += len(PIECE)

    async with talking(tmp_path, flood) as socket:
        assert await socket.receive() == PIECE
        tracemalloc.start()
        before = -1
        while sent != before:
            before = sent
            await asyncio.sleep(0.2)
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert held < MOST_HELD
        assert await socket.receive() == PIECE


async def test_a_slow_server_holds_little_and_stops_the_sender(tmp_path: Path) -> None:
    sent = 0

    async def flood(socket: Socket) -> None:
        nonlocal sent
        while True:
            await socket.send(PIECE)
            sent += len(PIECE)

    async with talking(tmp_path, silent) as socket, asyncio.TaskGroup() as tasks:
        tracemalloc.start()
        flooding = tasks.create_task(flood(socket))
        before = -1
        while sent != before:
            before = sent
            await asyncio.sleep(0.2)
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        flooding.cancel()
    assert sent > 0
    assert held < 2 * MOST_HELD  # both ends are in this process
