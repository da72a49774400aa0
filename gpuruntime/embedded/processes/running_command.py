"""A command with its streams, over pipes or on a terminal of its own."""

import asyncio
import fcntl
import os
import struct
import subprocess
import sys
import termios
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import IO, Final

import attrs

from gpuruntime.embedded.processes.guarded_processes import Process, Processes
from gpuruntime.embedded.processes.start_plan import Start

TERMINAL: Final = Path(__file__).with_name("terminal.py")
# asyncio holds at most twice this of each stream.
HELD_BYTES: Final = 64 * 1024
END_OF_INPUT: Final = b"\x04"  # Ctrl-D


@attrs.frozen(kw_only=True, slots=True)
class CommandOptions:
    has_input: bool = False
    has_terminal: bool = False


@attrs.frozen(kw_only=True, slots=True, eq=False)
class RunningCommand:
    """A command and its streams; on a terminal, `output` has the errors as well."""

    process: Process
    output: asyncio.StreamReader
    errors: asyncio.StreamReader | None = None
    input: asyncio.StreamWriter | None = None
    terminal: IO[bytes] | None = None

    async def write(self, data: bytes) -> None:
        """Write input and wait while the command does not read; drop it if it never will."""
        if self.input is not None and not self.input.is_closing():
            with suppress(OSError):
                self.input.write(data)
                await self.input.drain()

    async def end_input(self) -> None:
        if self.terminal is not None:
            await self.write(END_OF_INPUT)
        elif self.input is not None:
            self.input.close()

    def resize(self, *, columns: int, rows: int) -> None:
        if self.terminal is not None:
            size = struct.pack("HHHH", rows, columns, 0, 0)
            fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, size)


@asynccontextmanager
async def running_command(
    processes: Processes, start: Start, options: CommandOptions
) -> AsyncIterator[RunningCommand]:
    """Start a command; the end of the block kills it. Raise OSError if it cannot start."""
    begin = _on_a_terminal if options.has_terminal else _over_pipes
    with ExitStack() as ours:
        command = await begin(processes, start, options, ours)
        try:
            yield command
        finally:
            if not command.process.has_ended:
                await command.process.kill()


async def _over_pipes(
    processes: Processes, start: Start, options: CommandOptions, ours: ExitStack
) -> RunningCommand:
    with ExitStack() as theirs:
        output, written = _pipe(ours, theirs)
        errors, written_errors = _pipe(ours, theirs)
        read: int | IO[bytes] = subprocess.DEVNULL
        given: IO[bytes] | None = None
        if options.has_input:
            read, given = _pipe(theirs, ours)
        process = await processes.start_with(
            (read, written, written_errors),
            start.argv,
            environment=start.environment,
            folder=start.folder,
        )
    return RunningCommand(
        process=process,
        output=await _reader(output, ours),
        errors=await _reader(errors, ours),
        input=None if given is None else await _writer(given, ours),
    )


async def _on_a_terminal(
    processes: Processes, start: Start, options: CommandOptions, ours: ExitStack
) -> RunningCommand:
    main, inner = os.openpty()
    terminal = ours.enter_context(os.fdopen(main, "r+b", 0))
    with os.fdopen(inner, "r+b", 0) as stream:
        process = await processes.start_with(
            (stream, stream, stream),
            (sys.executable, "-I", "-S", str(TERMINAL), *start.argv),
            environment={"TERM": "xterm", **start.environment},
            folder=start.folder,
            leads_session=True,
        )
    output = ours.enter_context(os.fdopen(os.dup(main), "rb", 0))
    given = ours.enter_context(os.fdopen(os.dup(main), "wb", 0))
    return RunningCommand(
        process=process,
        output=await _reader(output, ours),
        input=await _writer(given, ours) if options.has_input else None,
        terminal=terminal,
    )


class _ReadToTheEnd(asyncio.StreamReaderProtocol):
    """A terminal ends with an error, which would hide the output that is not read yet."""

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        super().connection_lost(None)


def _pipe(reading: ExitStack, writing: ExitStack) -> tuple[IO[bytes], IO[bytes]]:
    one, other = os.pipe()
    return (
        reading.enter_context(os.fdopen(one, "rb", 0)),
        writing.enter_context(os.fdopen(other, "wb", 0)),
    )


async def _reader(file: IO[bytes], ours: ExitStack) -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=HELD_BYTES)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: _ReadToTheEnd(reader), file)
    ours.callback(transport.close)
    return reader


async def _writer(file: IO[bytes], ours: ExitStack) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), file
    )
    # The transport has closed its file if the command took no more input; it aborts only once.
    ours.callback(lambda: None if file.closed else transport.abort())
    return asyncio.StreamWriter(transport, protocol, None, loop)
