"""The body of a request, as it comes: within its time, as a whole and from piece to piece.

Whoever sends half of one holds a place for so long, and no longer.
"""

import asyncio

import attrs
from aiohttp import hdrs, web

from gpuruntime.api.errors import BodyTooLargeError, SlowBodyError
from gpuruntime.models.strict import Problem, StrictError


@attrs.frozen(kw_only=True, slots=True)
class BodyLimits:
    """`idle_seconds`: without a byte; `longest_seconds`: from when it is asked for to its end."""

    idle_seconds: float = 10.0
    longest_seconds: float = 30.0


async def read_body(request: web.Request, limits: BodyLimits) -> bytes:
    """Raises SlowBodyError, BodyTooLargeError, or StrictError where it is no whole body."""
    await ask_for_body(request)
    loop = asyncio.get_running_loop()
    until = loop.time() + limits.longest_seconds
    body = bytearray()
    try:
        while not request.content.at_eof():
            async with asyncio.timeout_at(min(until, loop.time() + limits.idle_seconds)):
                body += await request.content.readany()
            if len(body) > request.client_max_size:
                raise BodyTooLargeError("the body is too large: send less")
    except TimeoutError as error:
        raise SlowBodyError(_too_slow(is_over=loop.time() >= until, limits=limits)) from error
    except (web.RequestPayloadError, ConnectionError) as error:
        message = "the body ended early, or is not encoded as its head says"
        raise StrictError((Problem(field="", message=message),)) from error
    return bytes(body)


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
