"""The server over HTTP on this machine, for kubectl and clients in other processes."""

import asyncio
import errno
import ipaddress
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

from aiohttp import WSMsgType, web

from gpuruntime.embedded.apiserver.body_reader import LARGEST_BODY
from gpuruntime.embedded.apiserver.server import Server
from gpuruntime.embedded.apiserver.status_errors import StatusError
from gpuruntime.embedded.apiserver.streams import Stream
from gpuruntime.errors import ConfigurationError
from gpuruntime.kube.errors import UnreachableError
from gpuruntime.kube.transport import JSON, Request, Response
from gpuruntime.kube.web_socket import LARGEST_MESSAGE

LOOPBACK: Final = "127.0.0.1"
LOCALHOST: Final = "localhost"
STUCK_SECONDS: Final = 30.0  # a watch whose client reads nothing for this long is closed
CLOSING_SECONDS: Final = 0.1  # the time that open watches get when the server stops
_NO_PAGE: Final = ("none", "same-origin")  # no page of another origin caused such a request
LARGEST_HEAD: Final = 256 * 1024  # a command of the longest length is in the query


@asynccontextmanager
async def serve(server: Server, *, port: int = 0) -> AsyncIterator[str]:
    """Listen on loopback and yield the URL; port 0 lets the system choose a free one."""
    # If a client disconnects, its watch ends at once and not at the next event.
    http_server = web.Server(
        _HttpHandler(server).handle,
        handler_cancellation=True,
        access_log=None,
        max_line_size=LARGEST_HEAD,
    )
    runner = web.ServerRunner(http_server, shutdown_timeout=CLOSING_SECONDS)
    await runner.setup()
    try:
        await _listen(runner, port)
        yield f"http://{LOOPBACK}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def _listen(runner: web.ServerRunner, port: int) -> None:
    try:
        await web.TCPSite(runner, LOOPBACK, port).start()
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        message = f"port {port} on {LOOPBACK} is in use: stop what listens there, or use another"
        raise ConfigurationError(message) from error


class _HttpHandler:
    """A handler that translates between aiohttp and the server's own requests and answers."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def handle(self, received: web.BaseRequest) -> web.StreamResponse:
        if is_of_a_web_page(received.headers):
            message = (
                "web pages may not call this cluster: use a program of this machine that "
                f"sends no Origin, and the address {LOOPBACK} or the name {LOCALHOST}"
            )
            return _answered(StatusError(403, "Forbidden", message).response())
        request = Request(
            method=received.method,
            path=received.rel_url.raw_path,
            query=tuple(received.rel_url.query.items()),
            body=await _body(received),
            content_type=received.headers.get("Content-Type", JSON),
            accept=received.headers.get("Accept", JSON),
        )
        if received.headers.get("Upgrade", "").lower() == "websocket":
            return await self._upgrade(received, request)
        if not self._server.is_stream(request):
            answer = self._server.handle(request)
            return _answered(answer)
        stream = self._server.open_stream(request)
        try:
            return await _streamed(received, stream)
        finally:
            stream.close()

    async def _upgrade(self, received: web.BaseRequest, request: Request) -> web.StreamResponse:
        named = received.headers.get("Sec-WebSocket-Protocol", "").split(",")
        upgrade = self._server.upgrade(request, tuple(each.strip() for each in named))
        if isinstance(upgrade, Response):
            return _answered(upgrade)
        web_socket = web.WebSocketResponse(
            protocols=(upgrade.protocol,),
            timeout=CLOSING_SECONDS,
            max_msg_size=LARGEST_MESSAGE,
            compress=False,
        )
        await web_socket.prepare(received)
        await upgrade.serve(_HttpSocket(web_socket))
        await web_socket.close()
        return web_socket


def is_of_a_web_page(headers: Mapping[str, str]) -> bool:
    """Return whether a browser may have sent the request for a page of any origin.

    Callers are not identified, and Pods run commands on this machine. A page that cannot read an
    answer can still send requests, and one whose name resolves to this machine reads answers.
    """
    if "Origin" in headers or headers.get("Sec-Fetch-Site", "none") not in _NO_PAGE:
        return True
    return "Host" in headers and not _is_this_machine(headers["Host"])


def _is_this_machine(host: str) -> bool:
    """Return whether only this machine can have the name: any other name leads anywhere."""
    try:
        name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return False
    if name == LOCALHOST or name.endswith(f".{LOCALHOST}"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


class _HttpSocket:
    """A Socket for the server's side of a WebSocket."""

    status = 101

    def __init__(self, web_socket: web.WebSocketResponse) -> None:
        self._web_socket = web_socket

    async def send(self, message: bytes) -> None:
        try:
            await self._web_socket.send_bytes(message)
        except ConnectionError as error:
            raise UnreachableError(f"the WebSocket broke: {error}") from error

    async def receive(self) -> bytes | None:
        """Return the next message; one that is no bytes ends the WebSocket as a close does."""
        message = await self._web_socket.receive()
        return message.data if message.type is WSMsgType.BINARY else None


def _answered(answer: Response) -> web.Response:
    return web.Response(status=answer.status, headers=answer.headers, body=answer.body)


async def _body(received: web.BaseRequest) -> bytes | None:
    """Read the body, at most until it is known to be too large."""
    if not received.body_exists:
        return None
    body = bytearray()
    async for chunk in received.content.iter_any():
        body += chunk
        if len(body) > LARGEST_BODY:
            break
    return bytes(body)


async def _streamed(received: web.BaseRequest, stream: Stream) -> web.StreamResponse:
    response = web.StreamResponse(status=stream.status, headers=stream.headers)
    response.enable_chunked_encoding()
    await response.prepare(received)
    try:
        async for chunk in stream.chunks():
            async with asyncio.timeout(STUCK_SECONDS):
                await response.write(chunk)
    except (ConnectionError, TimeoutError):
        response.force_close()
    return response
