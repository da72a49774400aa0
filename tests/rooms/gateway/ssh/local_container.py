"""A container whose programs are processes of this machine, in a home of their own."""

import asyncio
import fcntl
import os
import pty
import signal
import struct
import termios
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from gpuruntime.gateway.ssh.container import (
    PIECE_BYTES,
    ContainerError,
    Execution,
    NotRunError,
    Program,
)
from gpuruntime.kube.pod_exec import fault_of
from gpuruntime.models.kubernetes.exec_streams import Output


class LocalContainer:
    """`paths` are where its programs are; `executed` has every program that was asked for.

    The first `cut_off` programs lose what they print behind their first piece.
    """

    def __init__(
        self,
        home: Path,
        *,
        paths: str = os.environ["PATH"],
        umask: int = 0o022,
        cut_off: int = 0,
    ) -> None:
        self.home = home
        self.executed: list[Program] = []
        self._environment = {"HOME": str(home), "PATH": paths}
        self._umask = umask
        self._cut_off = cut_off

    @asynccontextmanager
    async def execute(self, program: Program) -> AsyncIterator[Execution]:
        if fault := fault_of(program.arguments):
            raise ContainerError(fault)
        self.executed.append(program)
        begin = _on_a_terminal if program.has_terminal else _over_pipes
        try:
            execution = await begin(program, self._environment, self._umask)
        except OSError as error:
            yield _Refused(f"{program.arguments[0]}: {error.strerror}")
            return
        execution.is_cut_off = len(self.executed) <= self._cut_off
        pumps = [asyncio.create_task(pump) for pump in execution.pumps()]
        try:
            yield execution
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.wait(pumps)
            await execution.close()


class _Refused:
    """A program that cannot be run: a kubelet says so where its output would be."""

    exit_code: int | None = None

    def __init__(self, words: str) -> None:
        self._words = words

    async def write(self, data: bytes) -> None:
        pass

    async def end_input(self) -> None:
        pass

    async def resize(self, *, columns: int, rows: int) -> None:
        pass

    async def output(self) -> AsyncIterator[Output]:
        if self.exit_code is None:
            raise NotRunError(self._words)
        yield Output(data=b"")


async def _over_pipes(
    program: Program, environment: dict[str, str], umask: int
) -> "LocalExecution":
    given = asyncio.subprocess.PIPE if program.has_input else asyncio.subprocess.DEVNULL
    return LocalExecution(
        await asyncio.create_subprocess_exec(
            *program.arguments,
            stdin=given,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            env=environment,
            cwd="/",
            umask=umask,
        ),
        None,
    )


async def _on_a_terminal(
    program: Program, environment: dict[str, str], umask: int
) -> "LocalExecution":
    main, inner = pty.openpty()
    try:
        process = await asyncio.create_subprocess_exec(
            *program.arguments,
            stdin=inner,
            stdout=inner,
            stderr=inner,
            start_new_session=True,
            env=environment,
            cwd="/",
            umask=umask,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
    except OSError:
        os.close(main)
        raise
    finally:
        os.close(inner)
    os.set_blocking(main, False)
    return LocalExecution(process, main)


class LocalExecution:
    def __init__(self, process: asyncio.subprocess.Process, terminal: int | None) -> None:
        self.exit_code: int | None = None
        self.is_cut_off = False
        self._process = process
        self._terminal = terminal
        self._pieces: asyncio.Queue[Output | None] = asyncio.Queue(4)
        self._open = 1 if terminal is not None else 2

    def pumps(self) -> list[Coroutine[None, None, None]]:
        if self._terminal is not None:
            return [_pump_terminal(self._terminal, self._pieces)]
        return [
            self._pump_to_its_end(self._process.stdout, is_error=False),
            self._pump_to_its_end(self._process.stderr, is_error=True),
        ]

    async def _pump_to_its_end(
        self, stream: asyncio.StreamReader | None, *, is_error: bool
    ) -> None:
        """End the input with the output or the errors, as containerd does."""
        await _pump(stream, self._pieces, is_error=is_error)
        if self._process.stdin is not None:
            self._process.stdin.transport.abort()

    async def write(self, data: bytes) -> None:
        if self._terminal is not None:
            os.write(self._terminal, data)
        elif self._process.stdin is not None:
            with suppress(OSError):  # as a kubelet: what a program does not take is dropped
                self._process.stdin.write(data)
                await self._process.stdin.drain()

    async def end_input(self) -> None:
        if self._terminal is not None:
            await self.write(b"\x04")
        elif self._process.stdin is not None:
            self._process.stdin.close()

    async def resize(self, *, columns: int, rows: int) -> None:
        if self._terminal is not None:
            size = struct.pack("HHHH", rows, columns, 0, 0)
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, size)

    async def output(self) -> AsyncIterator[Output]:
        while self._open:
            each = await self._pieces.get()
            if each is None:
                self._open -= 1
            else:
                yield each
            if self.is_cut_off:
                raise ContainerError("it was cut off before it told an exit code")
        code = await self._process.wait()
        self.exit_code = code if code >= 0 else 128 - code

    async def close(self) -> None:
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        # The rest has to be read: asyncio closes its transports at the end of the pipes only.
        await self._process.communicate()
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self._terminal is not None:
            os.close(self._terminal)
            self._terminal = None


async def _pump(
    stream: asyncio.StreamReader | None, pieces: asyncio.Queue[Output | None], *, is_error: bool
) -> None:
    while stream is not None and (data := await stream.read(PIECE_BYTES)):
        await pieces.put(Output(data=data, is_error=is_error))
    await pieces.put(None)


async def _pump_terminal(terminal: int, pieces: asyncio.Queue[Output | None]) -> None:
    loop = asyncio.get_running_loop()
    while True:
        readable = asyncio.Event()
        loop.add_reader(terminal, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(terminal)
        try:
            data = os.read(terminal, PIECE_BYTES)
        except OSError:  # Linux reports the end of a terminal so
            data = b""
        if not data:
            await pieces.put(None)
            return
        await pieces.put(Output(data=data))
