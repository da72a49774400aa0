"""A Transport whose only WebSocket has a test at its other end."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from gpuruntime.embedded.apiserver.socket_pair import PairedSocket, socket_pair
from gpuruntime.kube.transport import Request, Response, Socket, StreamResponse


class SocketTransport:
    """`server` is the other end; a refusal is yielded instead of a WebSocket."""

    def __init__(self, refusal: Response | None = None) -> None:
        self.opened: list[tuple[Request, str]] = []
        self.server: PairedSocket
        self._refusal = refusal
        self._ours, self.server = socket_pair()

    async def request(self, request: Request) -> Response:
        raise NotImplementedError(f"only WebSockets are opened here: {request.path}")

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        raise NotImplementedError(f"only WebSockets are opened here: {request.path}")

    @asynccontextmanager
    async def socket(self, request: Request, protocol: str) -> AsyncIterator[Socket | Response]:
        self.opened.append((request, protocol))
        yield self._refusal or self._ours

    async def sent(self) -> list[bytes]:
        """Return what the client has sent, once it sends no more."""
        await self._ours.close()
        messages = []
        while (message := await self.server.receive()) is not None:
            messages.append(message)
        return messages

    async def serve(self, *messages: bytes) -> None:
        """Send these and close."""
        for message in messages:
            await self.server.send(message)
        await self.server.close()
