"""The body of a request, as it comes: within its time, as a whole and from piece to piece.

Whoever sends half of one holds a place for so long, and no longer.
"""

import asyncio

import attrs
from aiohttp import hdrs, web

from gpuruntime.api.errors import BodyTooLargeError, NotServingError, SlowBodyError
from gpuruntime.strict.structure import Problem, StrictError


@attrs.frozen(kw_only=True, slots=True)
class BodyLimits:
    """`idle_seconds`: without a byte; `longest_seconds`: from when it is asked for to its end.

    `most_bytes` are held of all that have not come whole yet.
    """

    idle_seconds: float = 10.0
    longest_seconds: float = 30.0
    most_bytes: int = 128 * 1024 * 1024


class Bodies:
    """Reads them, of all callers."""

    def __init__(self, limits: BodyLimits) -> None:
        self._limits = limits
        self._held = 0

    async def read(self, request: web.Request) -> bytes:
        """Raises SlowBodyError, BodyTooLargeError, NotServingError, or StrictError where it is no
        whole body.
        """
        await ask_for_body(request)
        until = asyncio.get_running_loop().time() + self._limits.longest_seconds
        body = bytearray()
        try:
            while not request.content.at_eof():
                piece = await self._piece(request, until)
                body += piece
                self._held += len(piece)
                self._demand_room(body, request.client_max_size)
        except (web.RequestPayloadError, ConnectionError) as error:
            message = "the body ended early, or is not encoded as its head says"
            raise StrictError((Problem(field="", message=message),)) from error
        finally:
            self._held -= len(body)
        return bytes(body)

    async def _piece(self, request: web.Request, until: float) -> bytes:
        loop, limits = asyncio.get_running_loop(), self._limits
        try:
            async with asyncio.timeout_at(min(until, loop.time() + limits.idle_seconds)):
                return await request.content.readany()
        except TimeoutError as error:
            words = _too_slow(is_over=loop.time() >= until, limits=limits)
            raise SlowBodyError(words) from error

    def _demand_room(self, body: bytearray, most_bytes: int) -> None:
        if len(body) > most_bytes:
            raise BodyTooLargeError("the body is too large: send less")
        if self._held > self._limits.most_bytes:
            raise NotServingError(
                "this replica holds as many halves of bodies as it can: send the request again"
            )


async def ask_for_body(request: web.Request) -> None:
    """Of whoever waits to be asked; nothing of the answer may have left yet."""
    if request.headers.get(hdrs.EXPECT, "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0


def _too_slow(*, is_over: bool, limits: BodyLimits) -> str:
    if is_over:
        words = f"the body did not come within {limits.longest_seconds:g} s"
    else:
        words = f"nothing of the body came for {limits.idle_seconds:g} s"
    return f"{words}: nothing was done, send it again"
