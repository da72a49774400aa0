"""An open file of a container: one `cat` from front to back, and `dd` before it after a jump."""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Final

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.gateway.ssh.container import Container, ContainerError, Execution, Program
from gpuruntime.gateway.ssh.shell_files import (
    Fault,
    FileError,
    error_of,
    operand,
    shell_command,
)
from gpuruntime.models.kubernetes.exec_streams import Output

LARGEST_READ: Final = 4 * 1024 * 1024  # as SFTP's limits are told to clients
# Clients ask for more until they have met the end many times: it is looked for once a second.
END_SECONDS: Final = 1.0
_BLOCK: Final = 65_536
_END_OF_ALL: Final = 2**63 - 1
_WORDS_BYTES: Final = 1024
# `dd` moves the offset of the file that it shares with `cat`. In blocks first, as an offset of
# that many single bytes is more than some can count.
_SKIP: Final = (
    '{ dd bs=65536 skip="$2" count=0; dd bs=1 skip="$3" count=0; } 2>/dev/null; exec cat'
)
_SEEK: Final = (
    '{ dd bs=65536 seek="$2" count=0 conv=notrunc; dd bs=1 seek="$3" count=0 conv=notrunc; } '
    "2>/dev/null </dev/null; exec cat"
)
READ: Final = 'exec cat <"$1"'
READ_FROM: Final = f'exec <"$1" || exit; {_SKIP}'
# containerd ends the input of a program that closes its output, so a second number keeps it open.
_KEEP: Final = "exec 3>&1; "
WRITE: Final = f'{_KEEP}exec cat 1<>"$1"'
WRITE_AT: Final = f'{_KEEP}exec 1<>"$1" || exit; {_SEEK}'
APPEND: Final = f'{_KEEP}exec cat >>"$1"'


class ShellFile:
    """An open file, used by one task. A write has reached it when `finish` returns."""

    def __init__(self, container: Container, path: bytes, *, appends: bool = False) -> None:
        self.path = path
        self._container = container
        self._appends = appends
        self._stream: _Stream | None = None
        self._end: tuple[int, float] | None = None

    async def read(self, offset: int, size: int) -> bytes:
        """Return fewer bytes only at the end, and none behind it. Raise FileError.

        Clients ask for several pieces at once: after a short one, the next would be a jump.
        """
        if self._is_known_end(offset):
            return b""
        wanted = min(size, LARGEST_READ)
        try:
            data = await self._read(offset, wanted)
        except ContainerError:
            # A runtime may lose the end of an output, so what is missing is read once more.
            try:
                data = await self._read(offset, wanted)
            except ContainerError as error:
                raise FileError(Fault.OTHER, str(error)) from error
        if len(data) < wanted:
            self._end = (offset + len(data), loop_time() + END_SECONDS)
            await self.finish()
        return data

    async def write(self, offset: int, data: bytes) -> None:
        """Send the data to the file. Raise FileError if earlier data did not reach it."""
        self._end = None
        stream = self._stream
        is_continued = stream is not None and (self._appends or offset == stream.offset)
        if stream is None or not stream.is_input or not is_continued:
            await self.finish()
            stream = await self._begin(offset, is_input=True)
        await stream.write(data)

    async def finish(self) -> None:
        """Wait until all writes have reached the file, and end a read. Raise FileError."""
        stream, self._stream = self._stream, None
        if stream is not None:
            await stream.close()

    @staticmethod
    def seek(offset: int, whence: int) -> int:
        """Answer as a file without holes, which is what asyncssh asks this for."""
        return offset if whence == os.SEEK_DATA else _END_OF_ALL

    def _is_known_end(self, offset: int) -> bool:
        return self._end is not None and offset >= self._end[0] and loop_time() < self._end[1]

    async def _read(self, offset: int, size: int) -> bytes:
        """Read from the stream that is there, or from a new one. Raise ContainerError."""
        stream = self._stream
        if stream is None or stream.is_input or offset != stream.offset:
            await self.finish()
            stream = await self._begin(offset, is_input=False)
        try:
            return await stream.read(size)
        except ContainerError:
            await self.finish()
            raise

    async def _begin(self, offset: int, *, is_input: bool) -> "_Stream":
        if is_input and self._appends:
            script = APPEND
        elif offset == 0:
            script = WRITE if is_input else READ
        else:
            script = WRITE_AT if is_input else READ_FROM
        blocks, rest = divmod(offset, _BLOCK)
        places = (str(blocks).encode(), str(rest).encode()) if offset else ()
        program = Program(
            arguments=shell_command(script, operand(self.path), *places), has_input=is_input
        )
        self._stream = await _Stream.open(self._container, program, offset)
        return self._stream


class _Stream:
    """A program that reads or writes the file from an offset on."""

    def __init__(self, stack: AsyncExitStack, execution: Execution, offset: int) -> None:
        self.offset = offset
        self.is_input = False
        self._stack = stack
        self._execution = execution
        self._output: AsyncIterator[Output] = execution.output()
        self._rest = bytearray()
        self._words = b""

    @classmethod
    async def open(cls, container: Container, program: Program, offset: int) -> "_Stream":
        stack = AsyncExitStack()
        try:
            execution = await stack.enter_async_context(container.execute(program))
        except ContainerError as error:
            raise FileError(Fault.OTHER, str(error)) from error
        stream = cls(stack, execution, offset)
        stream.is_input = program.has_input
        return stream

    async def read(self, size: int) -> bytes:
        """Return fewer bytes only at the end. Raise ContainerError if the output is cut off."""
        while len(self._rest) < size:
            each = await anext(self._output, None)
            if each is None:
                break
            self._take(each)
        if self._execution.exit_code:
            raise error_of(self._execution.exit_code, self._words)
        data = bytes(self._rest[:size])
        del self._rest[:size]
        self.offset += len(data)
        return data

    async def write(self, data: bytes) -> None:
        try:
            await self._execution.write(data)
        except ContainerError as error:
            raise await self._failure(error) or FileError(Fault.OTHER, str(error)) from error
        self.offset += len(data)

    async def close(self) -> None:
        """Close; wait for the end of a program that writes, and raise FileError if it failed."""
        failure = None
        async with self._stack:
            if self.is_input:
                failure = await self._end_input()
        if failure is not None:
            raise failure

    async def _end_input(self) -> FileError | None:
        try:
            await self._execution.end_input()
        except ContainerError as error:
            return await self._failure(error)
        return await self._failure(None)

    async def _failure(self, error: ContainerError | None) -> FileError | None:
        """Return why the program failed, in its own words if it has ended."""
        try:
            async for each in self._output:
                self._take(each)
        except ContainerError as lost:
            return FileError(Fault.OTHER, str(error or lost))
        code = self._execution.exit_code
        if code != 0:
            return error_of(code, self._words)
        return None if error is None else FileError(Fault.OTHER, str(error))

    def _take(self, each: Output) -> None:
        if each.is_error:
            self._words = (self._words + each.data)[:_WORDS_BYTES]
        elif not self.is_input:
            self._rest += each.data
