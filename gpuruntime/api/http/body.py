"""Bodies of requests, read within time limits: for each piece, and for the whole body.

A caller that sends half a body holds a place only for that time.
"""

import asyncio

import attrs
from aiohttp import web

from gpuruntime.api.errors import BodyTooLargeError, NotServingError, SlowBodyError
from gpuruntime.concurrency.clock import loop_time
from gpuruntime.relay.transfer import ask_for_body
from gpuruntime.strict.structure import Problem, StrictError


@attrs.frozen(kw_only=True, slots=True)
class BodyLimits:
    """`idle_seconds` bounds the time without a byte, `longest_seconds` that from request to end.

    `most_bytes` bounds the bytes held of all incomplete bodies together.
    """

    idle_seconds: float
    longest_seconds: float
    most_bytes: int = 128 * 1024 * 1024


class Bodies:
    """Reads the bodies of all callers."""

    def __init__(self, limits: BodyLimits) -> None:
        self._limits = limits
        self._held = 0

    async def read(self, request: web.Request) -> bytes:
        """Return the body; raise SlowBodyError, BodyTooLargeError or NotServingError.

        Raise StrictError if the body is not whole.
        """
        await ask_for_body(request)
        until = loop_time() + self._limits.longest_seconds
        body = bytearray()
        try:
            while not request.content.at_eof():
                piece = await self._piece(request, until)
                body += piece
                self._held += len(piece)
                self._demand_room(body, request.client_max_size)
        except (web.RequestPayloadError, ConnectionError) as error:
            message = "the body ended early, or is not framed as its head says"
            raise StrictError((Problem(field="", message=message),)) from error
        finally:
            self._held -= len(body)
        return bytes(body)

    async def _piece(self, request: web.Request, until: float) -> bytes:
        limits = self._limits
        try:
            async with asyncio.timeout_at(min(until, loop_time() + limits.idle_seconds)):
                return await request.content.readany()
        except TimeoutError as error:
            words = _too_slow(is_over=loop_time() >= until, limits=limits)
            raise SlowBodyError(words) from error

    def _demand_room(self, body: bytearray, most_bytes: int) -> None:
        if len(body) > most_bytes:
            raise BodyTooLargeError("the body is too large: send less")
        if self._held > self._limits.most_bytes:
            raise NotServingError(
                "this replica holds as many incomplete bodies as it can: retry later"
            )


def _too_slow(*, is_over: bool, limits: BodyLimits) -> str:
    if is_over:
        words = f"the body did not come within {limits.longest_seconds:g} s"
    else:
        words = f"no byte of the body came for {limits.idle_seconds:g} s"
    return f"{words}: nothing was done, send it again"
