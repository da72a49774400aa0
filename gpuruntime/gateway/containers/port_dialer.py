"""Connections to the ports of units: by the unit's Service, or through the container.

A declared port is reached by the Service's address, and no other port is. An undeclared one is the
Pod's own loopback: a relay in the container reaches it, or the kubelet, which knows no half close.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from typing import Final, Protocol, TypeAlias

from gpuruntime.concurrency.reads import bound_reads
from gpuruntime.errors import GpuRuntimeError
from gpuruntime.gateway.containers.relay_program import BEGINS, END, relay_command
from gpuruntime.gateway.containers.unit_pods import running_pod
from gpuruntime.gateway.units import declared_port
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import ApiError, KubeError
from gpuruntime.kube.pod_exec import Command, Execution, execute
from gpuruntime.kube.pod_forward import Forwarding, forward
from gpuruntime.models.kinds.templates import RUNTIME_CONTAINER
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.exec_streams import Output
from gpuruntime.models.kubernetes.metadata import Key

PIECE_BYTES: Final = 32 * 1024
# For a relay to start in a container that is busy.
RELAY_SECONDS: Final = 10.0
CLOSING_SECONDS: Final = 5.0
_MOST_WORDS: Final = 4096
_END_LINE: Final = re.compile(END + rb"([0-9]{1,18})")

# Returns the address of a declared port as this process reaches it, or raises GatewayError.
AddressOf: TypeAlias = Callable[[GPUUnit, int], tuple[str, int]]


class DialError(GpuRuntimeError):
    """Nothing answers at the port, or the connection broke."""


class ByteStream(Protocol):
    """A connection to a port of a unit. One task reads `output`, and another one writes."""

    async def write(self, data: bytes) -> None:
        """Send, and wait while the far side reads too slowly. Raise DialError or KubeError."""
        ...

    async def end(self) -> None:
        """End our half, if this kind of connection can."""
        ...

    def output(self) -> AsyncIterator[bytes]:
        """Yield bytes, and empty bytes when the far side has ended its half alone.

        End when the connection is over. Raise DialError or KubeError.
        """
        ...


class PortDialer:
    def __init__(self, client: Client, address_of: AddressOf, *, connect_seconds: float) -> None:
        self._client = client
        self._address_of = address_of
        self._connect_seconds = connect_seconds

    @asynccontextmanager
    async def dial(self, unit: GPUUnit, port: int) -> AsyncIterator[ByteStream]:
        """Connect to a port; the end of the block closes it. Raise DialError or GatewayError."""
        async with AsyncExitStack() as opened:
            if declared_port(unit, str(port)) is not None:
                address = self._address_of(unit, port)
                yield await self._to_service(opened, port, address)
            else:
                pod = await running_pod(self._client, unit)
                relay = await self._to_relay(opened, pod, port)
                yield relay or await self._to_kubelet(opened, pod, port)

    async def _to_service(
        self, opened: AsyncExitStack, port: int, address: tuple[str, int]
    ) -> ByteStream:
        try:
            async with asyncio.timeout(self._connect_seconds):
                reader, writer = await asyncio.open_connection(*address, limit=PIECE_BYTES)
        except (OSError, TimeoutError) as error:
            words = str(error) or f"not within {self._connect_seconds:g} s"
            raise DialError(f"nothing answers at port {port}: {words}") from error
        bound_reads(writer.transport)
        opened.push_async_callback(_closed, writer)
        return _TcpStream(reader, writer)

    async def _to_relay(self, opened: AsyncExitStack, pod: Key, port: int) -> "ByteStream | None":
        """Return a connection through a relay, or None if the image has no program for one."""
        command = Command(container=RUNTIME_CONTAINER, arguments=relay_command(port))
        with suppress(KubeError, TimeoutError):
            async with AsyncExitStack() as trying:
                execution = await trying.enter_async_context(execute(self._client, pod, command))
                pieces = await trying.enter_async_context(aclosing(execution.output()))
                stream = _RelayStream(execution, pieces)
                async with asyncio.timeout(RELAY_SECONDS):
                    if not await stream.begins():
                        return None
                await opened.enter_async_context(trying.pop_all())
                return stream
        return None

    async def _to_kubelet(self, opened: AsyncExitStack, pod: Key, port: int) -> ByteStream:
        try:
            forwarding = await opened.enter_async_context(forward(self._client, pod, port))
        except KubeError as error:
            raise DialError(f"port {port} cannot be reached: {error}") from error
        return _KubeletStream(forwarding)


async def _closed(writer: asyncio.StreamWriter) -> None:
    """Close after what was written, or at once if the far side does not take it."""
    writer.close()
    try:
        async with asyncio.timeout(CLOSING_SECONDS):
            await writer.wait_closed()
    except (OSError, TimeoutError):
        writer.transport.abort()


class _TcpStream:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._is_ended = asyncio.Event()

    async def write(self, data: bytes) -> None:
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError as error:
            raise DialError(f"the connection broke: {error}") from error

    async def end(self) -> None:
        with suppress(OSError):
            self._writer.write_eof()
        self._is_ended.set()

    async def output(self) -> AsyncIterator[bytes]:
        try:
            while data := await self._reader.read(PIECE_BYTES):
                yield data
        except OSError as error:
            raise DialError(f"the connection broke: {error}") from error
        yield b""
        await self._is_ended.wait()


class _RelayStream:
    """A relay in the container; its exit is the end of the connection."""

    def __init__(self, execution: Execution, pieces: AsyncIterator[Output]) -> None:
        self._execution = execution
        self._pieces = pieces
        self._words = b""
        self._early = b""

    async def begins(self) -> bool:
        """Wait for the relay's first word. Return whether there is a relay."""
        async for piece in self._pieces:
            if not piece.is_error:  # it has overtaken the word: nothing else writes output
                self._early = piece.data
                return True
            self._hear(piece)
            if self._words.startswith(BEGINS + b"\n"):
                self._words = self._words.removeprefix(BEGINS + b"\n")
                return True
        return False

    async def write(self, data: bytes) -> None:
        await self._execution.write(data)

    async def end(self) -> None:
        await self._execution.end_input()

    async def output(self) -> AsyncIterator[bytes]:
        count = len(self._early)
        is_ended = False
        if self._early:
            yield self._early
        try:
            async for piece in self._pieces:
                self._hear(piece)
                if not piece.is_error:
                    count += len(piece.data)
                    yield piece.data
                if not is_ended and self._ends_after(count):
                    is_ended = True
                    yield b""
        except ApiError as error:
            raise DialError(f"the relay in the container failed: {error}") from error
        if self._execution.exit_code != 0:
            raise DialError(f"the port cannot be reached: {self._fault()}")

    def _hear(self, piece: Output) -> None:
        if piece.is_error:
            self._words = (self._words + piece.data)[:_MOST_WORDS]

    def _fault(self) -> str:
        """Return the relay's words about its end; a relay that is killed has none."""
        said = [line for line in self._words.split(b"\n") if not line.startswith(END)]
        words = " ".join(b" ".join(said).decode(errors="replace").split())
        return words or f"its relay ended with exit code {self._execution.exit_code}"

    def _ends_after(self, count: int) -> bool:
        """Return whether the far side has ended its half with the bytes that have come."""
        ends = filter(None, map(_END_LINE.fullmatch, self._words.split(b"\n")[:-1]))
        return any(count >= int(end[1]) for end in ends)


class _KubeletStream:
    """A forward of the kubelet, which passes no half close on."""

    def __init__(self, forwarding: Forwarding) -> None:
        self._forwarding = forwarding

    async def write(self, data: bytes) -> None:
        await self._forwarding.write(data)

    async def end(self) -> None:
        pass

    def output(self) -> AsyncIterator[bytes]:
        return self._forwarding.output()
