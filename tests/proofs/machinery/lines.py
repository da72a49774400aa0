"""The line of one process to a server, which can be cut and mended like a network."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from typing import cast

from gpuruntime.kube.errors import UnreachableError
from gpuruntime.kube.transport import Request, Response, Socket, StreamResponse, Transport


class Line:
    """A request sent on a cut line never arrives; streams open at the cut stay broken."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._is_cut = False
        self._streams: set[_Stream] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()

    def cut(self) -> None:
        self._is_cut = True
        for stream in self._streams:
            stream.break_off()

    def mend(self) -> None:
        self._is_cut = False

    def hold(self) -> None:
        """Hold back the chunks of streams until the release; requests go on."""
        self._flowing.clear()

    def release(self) -> None:
        self._flowing.set()

    async def request(self, request: Request) -> Response:
        self._demand_whole(request)
        return await self._inner.request(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        return self._stream(request)

    def socket(
        self, request: Request, protocol: str
    ) -> AbstractAsyncContextManager[Socket | Response]:
        self._demand_whole(request)
        return self._inner.socket(request, protocol)

    @asynccontextmanager
    async def _stream(self, request: Request) -> AsyncIterator[StreamResponse]:
        self._demand_whole(request)
        async with self._inner.stream(request) as inner:
            stream = _Stream(inner, self._flowing)
            self._streams.add(stream)
            try:
                yield stream
            finally:
                self._streams.remove(stream)

    def _demand_whole(self, request: Request) -> None:
        if self._is_cut:
            raise UnreachableError(f"{request.method} {request.path}: the line is cut")


class _Stream:
    def __init__(self, inner: StreamResponse, flowing: asyncio.Event) -> None:
        self._inner = inner
        self._flowing = flowing
        self._is_broken = False
        self._wait: asyncio.Timeout | None = None

    @property
    def status(self) -> int:
        return self._inner.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._inner.headers

    def break_off(self) -> None:
        """Break the stream. Chunks that arrived and were not read are lost."""
        self._is_broken = True
        if self._wait is not None:
            self._wait.reschedule(asyncio.get_running_loop().time())

    async def chunks(self) -> AsyncIterator[bytes]:
        chunks = cast("AsyncGenerator[bytes, None]", self._inner.chunks())
        async with aclosing(chunks):
            while (chunk := await self._next_of(chunks)) is not None:
                yield chunk

    async def _next_of(self, chunks: AsyncIterator[bytes]) -> bytes | None:
        chunk = None
        with suppress(TimeoutError):
            async with asyncio.timeout(0 if self._is_broken else None) as self._wait:
                chunk = await anext(chunks, None)
                await self._flowing.wait()
        self._wait = None
        if self._is_broken:
            raise UnreachableError("the stream broke: the line is cut")
        return chunk
