"""A WebSocket to the API server: bounded both ways, probed while it is silent, cut at its end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import aiohttp

from gpuruntime.concurrency.reads import bound_reads
from gpuruntime.kube.errors import MalformedAnswerError, UnreachableError

# Every message is shorter than this; those of an API server have at most 32 KiB.
LARGEST_MESSAGE = 2**20
# A silent connection is probed after this time, and given up after the same time without a PONG.
SILENCE_SECONDS = 30.0
CLOSING_SECONDS = 5.0  # for what was sent and not yet received


class WebSocket(aiohttp.ClientWebSocketResponse):
    """aiohttp's WebSocket, with access to its connection."""

    @property
    def transport(self) -> asyncio.Transport | None:
        connection = self._response.connection
        return None if connection is None else connection.transport

    def release(self) -> None:
        """Close the connection for the session, too, unless that has happened."""
        self._response.close()

    @property
    def is_congested(self) -> bool:
        """Return whether a PING might wait behind what the peer has not taken yet."""
        transport = self.transport
        return transport is not None and transport.get_write_buffer_size() > 0


class HttpSocket:
    """A Socket over aiohttp."""

    status = 101

    def __init__(self, web_socket: WebSocket) -> None:
        self._web_socket = web_socket
        bound_reads(web_socket.transport)
        # The peer answers a PING only after it has taken what came before, which may be never:
        # a command need not read its input.
        self._is_input_unconfirmed = False

    async def send(self, message: bytes) -> None:
        self._is_input_unconfirmed = True
        try:
            await self._web_socket.send_bytes(message)
        except (aiohttp.ClientError, OSError) as error:
            raise _broken(error) from error

    async def receive(self) -> bytes | None:
        if (transport := self._web_socket.transport) is not None:
            transport.resume_reading()
        message = await self._next()
        # aiohttp would read on, and keep 512 KiB of messages.
        if (transport := self._web_socket.transport) is not None:
            transport.pause_reading()
        match message.type:
            case aiohttp.WSMsgType.BINARY:
                return bytes(message.data)
            case aiohttp.WSMsgType.CLOSE:
                return None
            case aiohttp.WSMsgType.ERROR:
                raise MalformedAnswerError(f"the WebSocket is malformed: {message.data}")
            case aiohttp.WSMsgType.TEXT:
                raise MalformedAnswerError("the WebSocket brought text instead of bytes")
            case _:
                raise _broken("the connection ended")

    async def _next(self) -> aiohttp.WSMessage:
        """Return the next message other than PING and PONG."""
        is_probed = False
        while True:
            try:
                async with asyncio.timeout(SILENCE_SECONDS):
                    message: aiohttp.WSMessage = await self._web_socket.receive()
            except TimeoutError as error:
                if is_probed and not self._is_input_unconfirmed:
                    why = f"no PONG within {SILENCE_SECONDS:g} s"
                    raise _broken(why) from error
                is_probed = await self._probe()
                continue
            self._is_input_unconfirmed = is_probed = False
            if message.type is aiohttp.WSMsgType.PING:
                await self._answer(message.data)
            elif message.type is not aiohttp.WSMsgType.PONG:
                return message

    async def _probe(self) -> bool:
        """Send a PING, which also keeps proxies from ending an idle connection.

        Return whether it was sent.
        """
        if self._web_socket.is_congested:
            return False
        try:
            await self._web_socket.ping()
        except (aiohttp.ClientError, OSError) as error:
            raise _broken(error) from error
        return True

    async def _answer(self, ping: bytes) -> None:
        if not self._web_socket.is_congested:
            try:
                await self._web_socket.pong(ping)
            except (aiohttp.ClientError, OSError) as error:
                raise _broken(error) from error


@asynccontextmanager
async def closing(web_socket: WebSocket) -> AsyncIterator[None]:
    """Close in order after a block that ended well, and at once after any other.

    The connection is aborted then: an orderly end of TLS could outlive the loop. The WebSocket may
    have let go of it before.
    """
    transport = web_socket.transport
    try:
        yield
        if transport is not None:
            transport.resume_reading()  # the peer's own end comes behind what was not received
        # In all, as aiohttp waits that long after each message that comes instead of an answer.
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_SECONDS):
                await web_socket.close()
    finally:
        if transport is not None:
            transport.abort()
        web_socket.release()


def _broken(why: object) -> UnreachableError:
    return UnreachableError(f"the WebSocket broke: {why}")
