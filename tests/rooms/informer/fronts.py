"""Fronts of the model server: real sockets, or calls within the process."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import attrs
import yaml
from aiohttp import web

from gpuruntime.kube.connect.sources import Kubeconfig
from gpuruntime.kube.errors import UnreachableError
from gpuruntime.kube.http import HttpTransport, connect
from gpuruntime.kube.transport import Request, Response, Socket, StreamResponse
from tests.rooms.informer.model import Answer, ModelServer


@attrs.frozen
class Stream:
    _answer: Answer

    @property
    def status(self) -> int:
        return self._answer.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._answer.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._answer.chunks:
                yield chunk
        except ConnectionResetError as error:
            raise UnreachableError("the connection was reset") from error


class DirectTransport:
    """A connector that refuses every connection while the front is down."""

    def __init__(self, server: ModelServer) -> None:
        self.server = server
        self.is_down = False

    async def request(self, request: Request) -> Response:
        stream = Stream(self._answer(request))
        body = b"".join([chunk async for chunk in stream.chunks()])
        await asyncio.sleep(0)
        return Response(status=stream.status, headers=stream.headers, body=body)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamResponse]:
        yield Stream(self._answer(request))

    def socket(
        self, request: Request, protocol: str
    ) -> AbstractAsyncContextManager[Socket | Response]:
        raise NotImplementedError(f"no test here opens a {protocol}: {request.path}")

    def _answer(self, request: Request) -> Answer:
        if self.is_down:
            self.server.note_refused()
            raise UnreachableError("the connection was refused")
        is_metadata = "as=PartialObjectMetadataList" in request.accept
        return self.server.answer(dict(request.query), is_metadata=is_metadata)


class HttpFront:
    """A front on a free loopback port, which stays the same after an outage."""

    def __init__(self, server: ModelServer) -> None:
        self._server = server
        self._runner: web.AppRunner | None = None
        self._port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def up(self) -> None:
        application = web.Application()
        application.router.add_get("/{path:.*}", self._handle)
        self._runner = web.AppRunner(
            application, shutdown_timeout=0.01, handler_cancellation=True, access_log=None
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def down(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    @asynccontextmanager
    async def resetting(self) -> AsyncIterator[list[None]]:
        """Reset every connection after its request, instead of the server; yield one each."""
        resets: list[None] = []

        async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            resets.append(None)
            writer.transport.abort()

        server = await asyncio.start_server(reset, "127.0.0.1", self._port, reuse_address=True)
        try:
            yield resets
        finally:
            server.close()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        is_metadata = "as=PartialObjectMetadataList" in request.headers["Accept"]
        answer = self._server.answer(dict(request.query), is_metadata=is_metadata)
        response = web.StreamResponse(status=answer.status, headers=answer.headers)
        await response.prepare(request)
        try:
            async for chunk in answer.chunks:
                await response.write(chunk)
        except ConnectionResetError:
            if request.transport is not None:
                request.transport.abort()
        return response


@asynccontextmanager
async def http_transport(
    server: ModelServer, folder: Path
) -> AsyncIterator[tuple[HttpTransport, HttpFront]]:
    """Return the product's own transport, configured as for kubectl."""
    front = HttpFront(server)
    await front.up()
    transport = await connect(_source(front.url, folder), now=lambda: datetime.now(UTC))
    try:
        yield transport, front
    finally:
        await transport.close()
        await front.down()


def _source(url: str, folder: Path) -> Kubeconfig:
    file = folder / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "model",
        "clusters": [{"name": "model", "cluster": {"server": url}}],
        "users": [{"name": "nobody", "user": {}}],
        "contexts": [{"name": "model", "context": {"cluster": "model", "user": "nobody"}}],
    }
    file.write_text(yaml.safe_dump(config))
    return Kubeconfig(str(file))
