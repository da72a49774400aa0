"""Forwards of an SSH connection: to ports of the unit's own loopback, and to its sockets."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Final, TypeAlias

import asyncssh
from asyncssh import SSHReader, SSHWriter

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.gateway.ssh.container import (
    PIECE_BYTES,
    Container,
    ContainerError,
    Execution,
    Stream,
)
from gpuruntime.gateway.ssh.programs import socket_relay_program

# Names of the Pod's own loopback. Whatever else a unit reaches, its own programs may reach.
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
LONGEST_SOCKET: Final = 107  # `sun_path` of Linux
# A connection whose caller has ended its half, and whose unit says nothing.
HALF_OPEN_SECONDS: Final = 900.0
BEGIN_SECONDS: Final = 10.0
_LAST_PORT: Final = 65_535
_WORDS_BYTES: Final = 1024
_GONE: Final = (asyncssh.Error, OSError)

Dial: TypeAlias = Callable[[], AbstractAsyncContextManager[Stream]]
Ends: TypeAlias = tuple[SSHReader[bytes], SSHWriter[bytes]]


def fault_of_target(host: str, port: int) -> str:
    """Return why a host and port are not forwarded to, or nothing."""
    if host.lower() not in LOOPBACK:
        return f"{host[:64]!r} is not forwarded to: only localhost of the unit is"
    return "" if 0 < port <= _LAST_PORT else f"{port} is no port: use 1 to {_LAST_PORT}"


def fault_of_socket(path: str) -> str:
    """Return why a path of a socket is not forwarded to, or nothing."""
    is_sound = path.startswith("/") and "\0" not in path and len(path.encode()) <= LONGEST_SOCKET
    return "" if is_sound else f"a socket has an absolute path of at most {LONGEST_SOCKET} bytes"


class Forward:
    """A forward: `opened` waits until the unit has answered, and `begin` hands the caller in."""

    def __init__(
        self, dial: Dial, *, touch: Callable[[], None], moved: Callable[[], None]
    ) -> None:
        loop = asyncio.get_running_loop()
        self._dial = dial
        self._touch = touch
        self._moved = moved
        self._opened: asyncio.Future[str] = loop.create_future()
        self._ends: asyncio.Future[Ends] = loop.create_future()
        self._said_at = loop_time()

    async def opened(self) -> str:
        """Wait for the connection; return why there is none, or nothing."""
        return await asyncio.shield(self._opened)

    def begin(self, reader: SSHReader[bytes], writer: SSHWriter[bytes]) -> None:
        if not self._ends.done():
            self._ends.set_result((reader, writer))

    def refuse(self, fault: str) -> None:
        if not self._opened.done():
            self._opened.set_result(fault)

    async def run(self) -> None:
        """Connect, then pass bytes on until the unit or the caller has closed."""
        try:
            async with self._dial() as stream:
                self._opened.set_result("")
                async with asyncio.timeout(BEGIN_SECONDS):
                    reader, writer = await self._ends
                await self._pass(stream, reader, writer)
        except (ContainerError, TimeoutError) as error:
            self.refuse(str(error) or "the unit did not answer")
        finally:
            self.refuse("the connection has ended")
            if self._ends.done() and not self._ends.cancelled():
                self._ends.result()[1].close()

    async def _pass(
        self, stream: Stream, reader: SSHReader[bytes], writer: SSHWriter[bytes]
    ) -> None:
        async with asyncio.TaskGroup() as tasks:
            running = [
                tasks.create_task(self._back(stream, writer)),
                tasks.create_task(writer.wait_closed()),
                tasks.create_task(self._forth(stream, reader)),
            ]
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in running:
                task.cancel()

    async def _forth(self, stream: Stream, reader: SSHReader[bytes]) -> None:
        with suppress(ContainerError, *_GONE):
            while data := await reader.read(PIECE_BYTES):
                await stream.write(data)
                self._touch()
                self._moved()
            await stream.end()
        # Some connections know no half close: a silent one is over.
        self._said_at, left = loop_time(), HALF_OPEN_SECONDS
        while left > 0:
            await asyncio.sleep(left)
            left = self._said_at + HALF_OPEN_SECONDS - loop_time()

    async def _back(self, stream: Stream, writer: SSHWriter[bytes]) -> None:
        with suppress(ContainerError, *_GONE):
            async for data in stream.output():
                if data:
                    writer.write(data)
                    await writer.drain()
                    self._said_at = loop_time()
                    self._moved()
                else:
                    writer.write_eof()


@asynccontextmanager
async def socket_relay(container: Container, path: str) -> AsyncIterator[Stream]:
    """Connect to a Unix socket by a relay in the container."""
    async with container.execute(socket_relay_program(path)) as execution:
        yield _RelayStream(execution)


class _RelayStream:
    def __init__(self, execution: Execution) -> None:
        self._execution = execution

    async def write(self, data: bytes) -> None:
        await self._execution.write(data)

    async def end(self) -> None:
        await self._execution.end_input()

    async def output(self) -> AsyncIterator[bytes]:
        words = b""
        async for each in self._execution.output():
            if each.is_error:
                words = (words + each.data)[:_WORDS_BYTES]
            else:
                yield each.data
        if self._execution.exit_code != 0:
            raise ContainerError(" ".join(words.decode(errors="replace").split()))
