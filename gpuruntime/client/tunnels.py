"""Bytes between a local connection and a unit: over a WebSocket whose text `end` ends one way."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Final, Protocol

from gpuruntime.client.errors import (
    ClientError,
    CutOffError,
    LostAnswerError,
    UnitRefusedError,
    UnreadableAnswerError,
)
from gpuruntime.client.web_socket import Closed, WebSocket
from gpuruntime.concurrency.tasks import task_group

PIECE_BYTES: Final = 32 * 1024
LOOPBACK: Final = "127.0.0.1"
_END: Final = "end"
# The codes with which the gateway closes.
_IN_ORDER: Final = 1000
_REFUSED: Final = 4502


class Tunnel:
    """A connection to a port or to the SSH server of a unit; each way ends by itself."""

    def __init__(self, socket: WebSocket, what: str) -> None:
        self._socket = socket
        self._what = what

    async def write(self, data: bytes) -> None:
        for start in range(0, len(data), PIECE_BYTES):
            await self._socket.send(data[start : start + PIECE_BYTES])

    async def end_input(self) -> None:
        """Tell the unit that nothing follows; it may still answer."""
        await self._socket.send(_END)

    async def read(self) -> bytes:
        """Return the next bytes, or none at the end.

        Raise UnitRefusedError if nothing listens there, and CutOffError if the connection broke.
        """
        while True:
            try:
                message = await self._socket.receive()
            except LostAnswerError as error:
                raise CutOffError(f"{self._what}: {error}") from error
            if isinstance(message, Closed):
                return self._end_of(message)
            if message == _END:
                return b""
            if isinstance(message, str):
                raise UnreadableAnswerError(f"{self._what}: the gateway sends unknown text")
            if message:
                return message

    def _end_of(self, closed: Closed) -> bytes:
        if closed.code == _IN_ORDER:
            return b""
        if closed.code == _REFUSED:
            raise UnitRefusedError(f"{self._what} takes no connections: {closed.reason}")
        why = closed.reason or closed.code
        raise CutOffError(f"{self._what}: the gateway closed the connection: {why}")


class Reader(Protocol):
    async def read(self, size: int, /) -> bytes: ...


class Writer(Protocol):
    """A taker of the bytes of a unit, such as a connection or the standard output."""

    async def write(self, data: bytes) -> None: ...

    async def end(self) -> None: ...


async def relay(tunnel: Tunnel, reader: Reader, writer: Writer) -> None:
    """Copy both ways until both have ended. Raise a ClientError or an OSError."""

    async def up() -> None:
        with suppress(LostAnswerError):  # the other way says why
            while data := await reader.read(PIECE_BYTES):
                await tunnel.write(data)
            await tunnel.end_input()

    async def down() -> None:
        while data := await tunnel.read():
            await writer.write(data)
        await writer.end()

    async with task_group() as group:
        group.create_task(up())
        group.create_task(down())


class _LocalWriter:
    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def end(self) -> None:
        if self._writer.can_write_eof():
            self._writer.write_eof()


Dial = Callable[[], AbstractAsyncContextManager[Tunnel]]
Tell = Callable[[str], None]


@asynccontextmanager
async def listening(port: int, dial: Dial, tell: Tell) -> AsyncIterator[int]:
    """Yield the local port, at which each connection gets a tunnel of its own.

    One that fails is reset, so that its program sees no end that looks whole, and told of.
    """
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            async with dial() as tunnel:
                await relay(tunnel, reader, _LocalWriter(writer))
            with suppress(OSError):
                writer.close()
                await writer.wait_closed()
        except ClientError as error:
            _reset(writer)
            tell(str(error))
        except (OSError, asyncio.CancelledError):
            # The local program has closed its connection, or the listener ends: asyncio's server
            # would report a task that ends as cancelled.
            pass
        finally:
            writer.transport.abort()
            tasks.discard(task)

    server = await asyncio.start_server(serve, LOOPBACK, port, limit=PIECE_BYTES)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def _reset(writer: asyncio.StreamWriter) -> None:
    """Let the connection end with a reset once it is closed."""
    with suppress(OSError):
        writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
