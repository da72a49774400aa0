"""The bytes of a relayed message: at most two connections' buffers of them wait in between."""

import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Final

import aiohttp
from aiohttp import hdrs, web
from multidict import CIMultiDict

from gpuruntime.relay.headers import fault_of

# Headers that aiohttp would add on its own; only the caller's are sent.
AUTOMATIC: Final = (hdrs.ACCEPT, hdrs.ACCEPT_ENCODING, hdrs.CONTENT_TYPE, hdrs.USER_AGENT)
# Bytes that wait for a slow caller: received from the server, and written to the caller.
RECEIVED_BYTES: Final = 64 * 1024
PIECE_BYTES: Final = 32 * 1024
# Closes at once: unsent bytes are dropped, and the peer gets a reset.
_RESET: Final = struct.pack("ii", 1, 0)


class Upload:
    """The caller's body. It keeps the error that ended it, as aiohttp drops the reason."""

    def __init__(
        self,
        request: web.Request,
        *,
        moved: Callable[[], None],
        most_bytes: int,
        too_large: Callable[[], Exception],
    ) -> None:
        self._request = request
        self._moved = moved
        self._most_bytes = most_bytes
        self._too_large = too_large
        self.is_there = request.can_read_body
        self.is_begun = False
        self.is_awaited = False
        self.failure: Exception | None = None
        self.count = 0

    def with_length(self, headers: CIMultiDict[str]) -> CIMultiDict[str]:
        """Return a copy of the headers, with the length of the body if the caller gives it."""
        headers = headers.copy()
        length = self._request.headers.get(hdrs.CONTENT_LENGTH)
        if self.is_there and length is not None:
            headers[hdrs.CONTENT_LENGTH] = length
        return headers

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body; the caller is asked for it only now that the server can take it."""
        self.is_begun = True
        await ask_for_body(self._request)
        self.is_awaited = True
        async for chunk in self._request.content.iter_chunked(PIECE_BYTES):
            self.is_awaited = False
            self.count += len(chunk)
            if self.count > self._most_bytes:
                self.failure = self._too_large()
                raise self.failure
            self._moved()
            yield chunk
            self.is_awaited = True
        self.is_awaited = False


def fault_of_head(answer: aiohttp.ClientResponse) -> str:
    """Return why the head of the answer cannot go on, or an empty text."""
    if not 200 <= answer.status <= 599:
        return f"answered with status {answer.status}"
    name = fault_of(answer.headers)
    return f"sent the malformed header {name!r}" if name else ""


async def download(
    answer: aiohttp.ClientResponse,
    request: web.Request,
    response: web.StreamResponse,
    *,
    taken: Callable[[int], None],
    moved: Callable[[], None],
) -> None:
    """Write the answer's body to the caller, piece by piece; `taken` may raise to end it."""
    if request.transport is not None:
        request.transport.set_write_buffer_limits(high=PIECE_BYTES)
    async for chunk in answer.content.iter_chunked(PIECE_BYTES):
        taken(len(chunk))
        moved()
        await response.write(chunk)
        await request.writer.drain()  # `write` drains only now and then
        moved()
    await response.write_eof()


async def ask_for_body(request: web.Request) -> None:
    """Ask a caller that waits for 100-continue; no byte of the answer may have left yet."""
    if request.headers.get(hdrs.EXPECT, "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0


def cut(request: web.Request) -> None:
    """Reset the caller's connection, so that it does not take the bytes so far for the whole."""
    transport = request.transport
    if transport is None:
        return
    connection = transport.get_extra_info("socket")
    if connection is not None:
        with suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    transport.abort()
