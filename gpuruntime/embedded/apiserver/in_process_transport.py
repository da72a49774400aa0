"""The transport of clients in the server's own process: the same answers without a socket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from gpuruntime.embedded.apiserver.server import Server
from gpuruntime.embedded.apiserver.socket_pair import socket_pair
from gpuruntime.kube.transport import Request, Response, Socket, StreamResponse

CLOSING_SECONDS: Final = 5.0  # for what was sent and not yet received


class InProcessTransport:
    """A transport that yields to the loop once per request, as a network call would."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def request(self, request: Request) -> Response:
        await asyncio.sleep(0)
        if not self._server.is_stream(request):
            return self._server.handle(request)
        async with self.stream(request) as stream:
            body = b"".join([chunk async for chunk in stream.chunks()])
            return Response(status=stream.status, headers=stream.headers, body=body)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamResponse]:
        await asyncio.sleep(0)
        stream = self._server.open_stream(request)
        try:
            yield stream
        finally:
            stream.close()

    @asynccontextmanager
    async def socket(self, request: Request, protocol: str) -> AsyncIterator[Socket | Response]:
        await asyncio.sleep(0)
        upgrade = self._server.upgrade(request, (protocol,))
        if isinstance(upgrade, Response):
            yield upgrade
            return
        ours, theirs = socket_pair()

        async def serve() -> None:
            try:
                await upgrade.serve(theirs)
            finally:
                await theirs.close()

        fault: BaseException | None = None
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(serve(), name=f"{request.path}")
            try:
                yield ours
                await ours.close()
                await asyncio.wait([serving], timeout=CLOSING_SECONDS)
            except BaseException as error:  # noqa: BLE001 - the group would wrap it
                fault = error
            serving.cancel()
        if fault is not None:
            raise fault
