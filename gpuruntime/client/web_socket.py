"""A WebSocket to the gateway: bounded messages, probed while it is silent, cut at its end."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Final, TypeAlias

import aiohttp
import attrs

from gpuruntime.client.errors import LostAnswerError, UnreadableAnswerError

# The gateway's own bound of a message from a unit.
LARGEST_MESSAGE: Final = 2**20
# A silent connection is probed after this time, and given up after the same time without a PONG.
SILENCE_SECONDS: Final = 30.0
# The gateway gives up a caller after 30 s without any answer.
UNREAD_SECONDS: Final = 10.0
_CLOSING_SECONDS: Final = 2.0


@attrs.frozen(slots=True)
class Closed:
    """The gateway has closed the WebSocket, and said why."""

    code: int
    reason: str


Message: TypeAlias = bytes | str | Closed


class Connection(aiohttp.ClientWebSocketResponse):
    """aiohttp's WebSocket, with access to its connection."""

    def abort(self) -> None:
        """End the connection at once: an orderly end of TLS could outlive the loop."""
        transport = self._transport
        if transport is not None:
            transport.abort()
        self._response.close()

    @property
    def is_congested(self) -> bool:
        """Return whether a PING might wait behind what the peer has not taken yet."""
        transport = self._transport
        return transport is not None and transport.get_write_buffer_size() > 0

    @property
    def _transport(self) -> asyncio.Transport | None:
        connection = self._response.connection
        return None if connection is None else connection.transport


class WebSocket:
    """Messages of one receiver and any number of senders; LostAnswerError says that it broke."""

    def __init__(self, connection: Connection, server: str) -> None:
        self._connection = connection
        self._server = server
        self._is_receiving = False
        # The peer answers a PING only after it has taken what came before, which may be never:
        # a program need not read its input.
        self._is_input_unconfirmed = False

    async def send(self, message: bytes | str) -> None:
        """Send a message, and wait while the peer takes too little."""
        self._is_input_unconfirmed = True
        with self._translated():
            if isinstance(message, bytes):
                await self._connection.send_bytes(message)
            else:
                await self._connection.send_str(message)

    async def keep(self) -> None:
        """Send PONGs as long as nothing is received, as while a pager shows the output.

        PINGs then wait behind what is not read yet, and the gateway would miss their answers.
        """
        with suppress(LostAnswerError):
            while True:
                await asyncio.sleep(UNREAD_SECONDS)
                if not self._is_receiving and not self._connection.is_congested:
                    with self._translated():
                        await self._connection.pong()

    async def receive(self) -> Message:
        self._is_receiving = True
        try:
            message = await self._next()
        finally:
            self._is_receiving = False
        match message.type:
            case aiohttp.WSMsgType.BINARY:
                return bytes(message.data)
            case aiohttp.WSMsgType.TEXT:
                return str(message.data)
            case aiohttp.WSMsgType.CLOSE:
                return Closed(int(message.data), str(message.extra or ""))
            case aiohttp.WSMsgType.ERROR:
                raise UnreadableAnswerError(f"{self._server}: a malformed WebSocket")
            case _:
                raise self._broken("the connection ended")

    async def _next(self) -> aiohttp.WSMessage:
        """Return the next message other than PING and PONG."""
        is_probed = False
        while True:
            try:
                async with asyncio.timeout(SILENCE_SECONDS):
                    message: aiohttp.WSMessage = await self._connection.receive()
            except TimeoutError as error:
                if is_probed and not self._is_input_unconfirmed:
                    raise self._broken(f"silent for {SILENCE_SECONDS:g} s") from error
                is_probed = not self._connection.is_congested
                if is_probed:
                    with self._translated():
                        await self._connection.ping()
                continue
            self._is_input_unconfirmed = is_probed = False
            if message.type is aiohttp.WSMsgType.PING:
                if not self._connection.is_congested:
                    with self._translated():
                        await self._connection.pong(message.data)
            elif message.type is not aiohttp.WSMsgType.PONG:
                return message

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (aiohttp.ClientError, OSError) as error:
            raise self._broken(error) from error

    def _broken(self, why: object) -> LostAnswerError:
        return LostAnswerError(f"{self._server}: the connection broke: {why}")


@asynccontextmanager
async def closing(connection: Connection) -> AsyncIterator[None]:
    """Close in order after a block that ended well, and at once after any other."""
    try:
        yield
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSING_SECONDS):
                await connection.close()
    finally:
        connection.abort()
