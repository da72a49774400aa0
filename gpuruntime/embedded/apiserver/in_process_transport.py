"""The transport of clients in the server's own process: the same answers without a socket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gpuruntime.embedded.apiserver.server import Server
from gpuruntime.kube.transport import Request, Response, StreamResponse


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
