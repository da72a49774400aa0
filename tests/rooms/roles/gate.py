"""A controllable load balancer between a process and its cluster."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import attrs

from gpuruntime.embedded.apiserver.streams import WholeAnswer
from gpuruntime.kube.transport import JSON, Request, Response, Socket, StreamResponse, Transport
from gpuruntime.models.encoding import codec


def status(code: int, reason: str) -> Response:
    """Return a refusal as the API server writes it."""
    body = codec.encode(
        {"kind": "Status", "apiVersion": "v1", "code": code, "reason": reason, "message": "no"}
    )
    return Response(status=code, headers={"content-type": JSON}, body=body)


class Gate:
    """A shut gate ends watches and answers every request by itself."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._path = re.compile("")
        self._answer: Response | None = None
        self._waiting: dict[asyncio.Timeout, str] = {}

    def shut(self, answer: Response, path: str = "") -> None:
        """Shut the gate for requests whose path matches the pattern."""
        self._answer, self._path = answer, re.compile(path)
        for waiting, path in self._waiting.items():
            if self._path.search(path):
                waiting.reschedule(asyncio.get_running_loop().time())

    def open(self) -> None:
        self._answer = None

    async def request(self, request: Request) -> Response:
        return self._refusal_of(request) or await self._inner.request(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        return self._stream(request)

    @asynccontextmanager
    async def socket(self, request: Request, protocol: str) -> AsyncIterator[Socket | Response]:
        if refusal := self._refusal_of(request):
            yield refusal
            return
        async with self._inner.socket(request, protocol) as socket:
            yield socket

    @asynccontextmanager
    async def _stream(self, request: Request) -> AsyncIterator[StreamResponse]:
        if refusal := self._refusal_of(request):
            yield WholeAnswer(refusal)
            return
        async with self._inner.stream(request) as stream:
            yield _Passing(stream, self._waiting, request.path)

    def _refusal_of(self, request: Request) -> Response | None:
        return self._answer if self._path.search(request.path) else None


@attrs.frozen
class _Passing:
    _inner: StreamResponse
    _waiting: dict[asyncio.Timeout, str]
    _path: str

    @property
    def status(self) -> int:
        return self._inner.status

    @property
    def headers(self) -> dict[str, str]:
        return dict(self._inner.headers)

    async def chunks(self) -> AsyncIterator[bytes]:
        chunks = self._inner.chunks()
        while True:
            waiting = asyncio.timeout(None)
            self._waiting[waiting] = self._path
            try:
                async with waiting:
                    chunk = await anext(chunks, None)
            except TimeoutError:
                return
            finally:
                del self._waiting[waiting]
            if chunk is None:
                return
            yield chunk
