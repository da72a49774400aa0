"""The caller's end of a session: a WebSocket that is probed while it is open."""

import asyncio
from collections.abc import Awaitable
from enum import IntEnum
from typing import Final, NoReturn

import aiohttp
import attrs
from aiohttp import hdrs, web

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.errors import GpuRuntimeError
from gpuruntime.gateway.errors import Code, GatewayError

CLOSING_SECONDS: Final = 5.0
_LONGEST_REASON: Final = 123


class CloseCode(IntEnum):
    """Codes with which a session ends; those from 4000 are ours."""

    DONE = 1000
    STOPPING = 1001
    UNSUPPORTED = 1003
    BAD_MESSAGE = 1008
    NOT_ADMITTED = 4403
    IDLE = 4408
    UPSTREAM = 4502
    UNKNOWN = 4503


@attrs.frozen(slots=True)
class Close:
    """The end of a session; callers get the words, at most 123 bytes of them.

    A caller that does not take the end within `patience_seconds` is cut off.
    """

    code: CloseCode
    words: str = ""
    patience_seconds: float = CLOSING_SECONDS


class CallerGoneError(GpuRuntimeError):
    """The caller has closed the WebSocket, or no longer answers."""


class CallerSocket:
    """An open WebSocket with one reader and any number of senders."""

    def __init__(self, response: web.WebSocketResponse, transport: asyncio.Transport) -> None:
        self.response: Final = response
        self._transport = transport
        # Loop time since when the next message is awaited, or None while the unit takes one.
        self._listening_since: float | None = None
        # A caller answers a PING after it has taken what came before, which a pager may delay.
        self._is_output_unconfirmed = False

    async def receive(self) -> bytes | str:
        """Return the next message. Raise CallerGoneError at the end."""
        while True:
            self._listening_since = loop_time()
            self._transport.resume_reading()
            message = await self.response.receive()
            self._is_output_unconfirmed = False
            match message.type:
                case aiohttp.WSMsgType.BINARY | aiohttp.WSMsgType.TEXT:
                    # aiohttp would read on, and keep 512 KiB of messages.
                    self._transport.pause_reading()
                    self._listening_since = None
                    data: bytes | str = message.data
                    return data
                case aiohttp.WSMsgType.PING:
                    await self._sent(self.response.pong(message.data))
                case aiohttp.WSMsgType.PONG:
                    pass
                case _:
                    raise CallerGoneError("the caller has left")

    async def send(self, message: bytes) -> None:
        """Send, and wait while the caller reads too slowly. Raise CallerGoneError."""
        self._is_output_unconfirmed = True
        await self._sent(self.response.send_bytes(message))

    async def send_text(self, text: str) -> None:
        await self._sent(self.response.send_str(text))

    async def probe(self, every_seconds: float) -> NoReturn:
        """Send PINGs. Raise CallerGoneError if a caller that is listened to answers none.

        A PING proves nothing while it waits behind output that the caller may not have taken.
        """
        while True:
            asked_at = loop_time()
            is_asked = not self._transport.get_write_buffer_size()
            if is_asked:
                await self._sent(self.response.ping())
            await asyncio.sleep(every_seconds)
            if self._transport.is_closing():
                raise CallerGoneError("the connection ended")
            since = self._listening_since
            is_heard = since is None or since > asked_at
            if is_asked and not is_heard and not self._is_output_unconfirmed:
                raise CallerGoneError(f"no PONG within {every_seconds:g} s")

    async def close(self, close: Close) -> None:
        """Close, and cut the connection if the caller does not take the end in time."""
        words = close.words.encode()[:_LONGEST_REASON].decode(errors="ignore").encode()
        self._transport.resume_reading()  # the caller's own end comes behind what was not received
        try:
            async with asyncio.timeout(close.patience_seconds):
                await self.response.close(code=close.code, message=words)
        except TimeoutError:
            self._transport.abort()

    async def _sent(self, sending: Awaitable[None]) -> None:
        try:
            await sending
        except (aiohttp.ClientError, OSError) as error:
            raise CallerGoneError("the caller has left") from error


def offered_protocols(request: web.Request) -> tuple[str, ...]:
    offered = ",".join(request.headers.getall(hdrs.SEC_WEBSOCKET_PROTOCOL, ()))
    return tuple(each.strip() for each in offered.split(",") if each.strip())


def demand_upgrade(request: web.Request) -> None:
    """Raise GatewayError unless the request opens a WebSocket."""
    response = web.WebSocketResponse(protocols=offered_protocols(request))
    if not response.can_prepare(request).ok:
        raise GatewayError(Code.INVALID_REQUEST, "this path is a WebSocket: open one")


async def accept(
    request: web.Request, *, protocols: tuple[str, ...], largest: int
) -> CallerSocket:
    """Open the caller's WebSocket, whose messages have at most `largest` bytes."""
    response = web.WebSocketResponse(
        protocols=protocols,
        timeout=CLOSING_SECONDS,
        autoping=False,
        compress=False,
        max_msg_size=largest + 1,
    )
    await response.prepare(request)
    transport = request.transport
    if transport is None:
        raise CallerGoneError("the caller has left")
    return CallerSocket(response, transport)
