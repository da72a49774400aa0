"""Watches that break, even within a line, and watches that expire, fall silent or lag."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import Final, cast

import attrs

from gpuruntime.kube.errors import UnreachableError
from gpuruntime.kube.transport import Response, StreamResponse

GONE: Final = (
    b'{"type":"ERROR","object":'
    b'{"kind":"Status","apiVersion":"v1","code":410,"reason":"Expired"}}\n'
)


@attrs.define(eq=False)
class DisturbedStream:
    """A watch that may be silent until a moment; events before it arrive late."""

    _inner: StreamResponse
    _lag: Callable[[], float]
    silent_until: float = 0.0
    _is_broken: bool = False
    _is_expired: bool = False
    _is_torn: bool = False
    _deadline: asyncio.Timeout | None = None

    @property
    def status(self) -> int:
        return self._inner.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._inner.headers

    def break_off(self) -> None:
        self._is_broken = True
        self._wake()

    def tear(self) -> None:
        """End the watch in the middle of its next line."""
        self._is_torn = True

    def expire(self) -> None:
        self._is_expired = True
        self._wake()

    async def chunks(self) -> AsyncIterator[bytes]:
        chunks = cast("AsyncGenerator[bytes, None]", self._inner.chunks())
        async with aclosing(chunks):
            while True:
                try:
                    async with asyncio.timeout(None) as self._deadline:
                        chunk = await self._next(chunks)
                except TimeoutError:
                    chunk = b""
                finally:
                    self._deadline = None
                if self._is_broken:
                    raise UnreachableError("watch: reset")
                if self._is_expired:
                    yield GONE
                    return
                if chunk is None:
                    return
                # Chunks do not end where lines end.
                middle = len(chunk) // 2
                yield chunk[:middle]
                if self._is_torn:
                    return
                yield chunk[middle:]

    async def _next(self, chunks: AsyncGenerator[bytes, None]) -> bytes | None:
        if self._is_broken or self._is_expired:
            return b""
        chunk = await anext(chunks, None)
        await asyncio.sleep(self._lag())
        await asyncio.sleep(max(0.0, self.silent_until - asyncio.get_running_loop().time()))
        return chunk

    def _wake(self) -> None:
        if self._deadline is not None:
            self._deadline.reschedule(asyncio.get_running_loop().time())


@attrs.frozen
class RefusedStream:
    """A watch that the server refuses to open."""

    _response: Response

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._response.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._response.body
