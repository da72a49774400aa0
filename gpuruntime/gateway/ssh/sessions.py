"""Sessions of an SSH connection: a program in the container each, or its files."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final
from uuid import uuid4

import attrs
from asyncssh import (
    BreakReceived,
    Error,
    SFTPServer,
    SignalReceived,
    SSHReader,
    SSHServerChannel,
    SSHWriter,
    TerminalSizeChanged,
)
from asyncssh.constants import EXTENDED_DATA_STDERR
from asyncssh.scp import run_scp_server
from asyncssh.sftp import run_sftp_server
from asyncssh.stream import SSHServerStreamSession

from gpuruntime.gateway.ssh.container import (
    PIECE_BYTES,
    Container,
    ContainerError,
    Execution,
    NotRunError,
    Program,
)
from gpuruntime.gateway.ssh.programs import (
    SIGNALS,
    SessionRequest,
    kill_program,
    session_program,
    sftp_server_program,
)
from gpuruntime.gateway.ssh.sftp import SftpFiles
from gpuruntime.kube.pod_exec import LARGEST_SIDE

KILL_SECONDS: Final = 10.0
FAILED: Final = 125  # the exit code of a program that could not be run
SFTP: Final = "sftp"
_SFTP_VERSION: Final = 3
_SCP: Final = "scp "
# The caller has gone.
_GONE: Final = (Error, OSError)


class SessionChannel(SSHServerStreamSession[bytes]):
    """A session of a caller, with its streams once it has begun."""

    def __init__(
        self,
        begin: Callable[["SessionChannel"], None],
        over: Callable[[], None],
        *,
        has_files: bool,
    ) -> None:
        super().__init__(None)
        self.gone: Final = asyncio.Event()
        self.channel: SSHServerChannel[bytes]
        self._begin = begin
        self._over = over
        self._has_files = has_files

    def connection_made(self, chan: SSHServerChannel[bytes]) -> None:  # type: ignore[override]
        super().connection_made(chan)
        self.channel = chan

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.gone.set()
        self._over()

    def shell_requested(self) -> bool:
        return True

    def exec_requested(self, command: str) -> bool:
        del command
        return True

    def subsystem_requested(self, subsystem: str) -> bool:
        return subsystem == SFTP and self._has_files

    def break_received(self, msec: int) -> bool:
        del msec
        return False

    def session_started(self) -> None:
        self._begin(self)

    def fail(self, words: str) -> None:
        """End the session with words, in place of the program."""
        self.say(words)
        with suppress(*_GONE):
            self.channel.exit(FAILED)

    def say(self, words: str) -> None:
        with suppress(*_GONE):
            self.streams().errors.write(f"gpuruntime: {words}\n".encode())

    def streams(self) -> "Streams":
        return Streams(
            input=SSHReader(self, self.channel),
            output=SSHWriter(self, self.channel),
            errors=SSHWriter(self, self.channel, EXTENDED_DATA_STDERR),
        )


@attrs.frozen(kw_only=True, slots=True)
class Streams:
    input: SSHReader[bytes]
    output: SSHWriter[bytes]
    errors: SSHWriter[bytes]


@attrs.frozen(kw_only=True, slots=True)
class SessionContext:
    """The dependencies of a session.

    `sftp_server` returns the path of the image's own one, or nothing. `touch` counts bytes of the
    caller, and `moved` those of both sides.
    """

    container: Container
    sftp_server: Callable[[], Awaitable[str]]
    touch: Callable[[], None]
    moved: Callable[[], None]
    has_files: bool


class Session:
    def __init__(self, channel: SessionChannel, context: SessionContext) -> None:
        self._session = channel
        self._channel = channel.channel
        self._streams = channel.streams()
        self._context = context
        self._id = uuid4().hex

    async def run(self) -> None:
        """Run until the program has ended or the caller has gone; never raise for either."""
        try:
            await self._run()
        except ContainerError as error:
            self._session.fail(str(error))

    async def _run(self) -> None:
        command = self._channel.get_command()
        if self._channel.get_subsystem() == SFTP:
            if server := await self._context.sftp_server():
                await self._run_program(sftp_server_program(server))
            else:
                await self._run_sftp()
        elif command is not None and command.startswith(_SCP) and self._context.has_files:
            await self._run_scp(command)
        else:
            request = SessionRequest(
                id=self._id,
                command=command,
                variables=self._channel.get_environment_bytes(),
                terminal=self._channel.get_terminal_type(),
                size=_size_of(self._channel),
            )
            await self._run_program(session_program(request))

    async def _run_sftp(self) -> None:
        files = self._files(expands_home=False)
        streams = self._streams
        with suppress(*_GONE):
            try:
                await run_sftp_server(files, streams.input, streams.output, _SFTP_VERSION)
            except EOFError:  # the caller has ended its half before its first request
                self._channel.exit(0)

    async def _run_scp(self, command: str) -> None:
        streams, files = self._streams, self._files(expands_home=True)
        serving = run_scp_server(files, command, streams.input, streams.output, streams.errors)
        with suppress(*_GONE):
            if serving is not None:
                await serving

    def _files(self, *, expands_home: bool) -> SFTPServer:
        async def drain() -> None:
            self._context.moved()
            self._context.touch()
            await self._streams.output.drain()

        def over() -> None:
            # Before asyncssh closes the channel: OpenSSH asks for the exit code of its server.
            self._channel.exit(0)

        files: object = SftpFiles(
            self._context.container, drain=drain, over=over, expands_home=expands_home
        )
        return files  # type: ignore[return-value]  # see SftpFiles

    async def _run_program(self, program: Program) -> None:
        async with self._context.container.execute(program) as execution:
            fault = await self._follow(execution)
        if self._session.gone.is_set():
            if program.has_terminal and execution.exit_code is None:
                await self._kill("HUP")
        elif execution.exit_code is not None:
            self._channel.exit(execution.exit_code)
        elif isinstance(fault, NotRunError):
            self._session.fail(str(fault))
        else:
            self._session.say(f"the program was cut off: {fault}")
            self._channel.exit_with_signal("HUP", msg=str(fault))

    async def _follow(self, execution: Execution) -> ContainerError | None:
        """Pass everything on until the program ends or the caller is gone; return any fault."""
        async with asyncio.TaskGroup() as tasks:
            back = tasks.create_task(self._back(execution))
            forth = tasks.create_task(self._forth(execution))
            gone = tasks.create_task(self._session.gone.wait())
            await asyncio.wait((back, gone), return_when=asyncio.FIRST_COMPLETED)
            for task in (back, forth, gone):
                task.cancel()
        return None if back.cancelled() else back.result()

    async def _back(self, execution: Execution) -> ContainerError | None:
        try:
            async for each in execution.output():
                stream = self._streams.errors if each.is_error else self._streams.output
                stream.write(each.data)
                await stream.drain()
                self._context.moved()
        except ContainerError as error:
            return error
        except _GONE:
            pass
        return None

    async def _forth(self, execution: Execution) -> None:
        try:
            if size := _size_of(self._channel):
                await _resize(execution, *size)
            while not self._session.gone.is_set():
                try:
                    data = await self._streams.input.read(PIECE_BYTES)
                except TerminalSizeChanged as change:
                    await _resize(execution, change.width, change.height)
                except SignalReceived as received:
                    await self._kill(received.signal)
                except BreakReceived:
                    pass
                else:
                    if not data:
                        await execution.end_input()
                        return
                    await execution.write(data)
                    self._context.touch()
                    self._context.moved()
        except (ContainerError, *_GONE):
            return  # the program takes no more input, or the caller has gone

    async def _kill(self, signal: str) -> None:
        """Send a signal to the session's processes, as a server of SSH does at its end."""
        if signal not in SIGNALS:
            return
        with suppress(ContainerError, TimeoutError):
            async with (
                asyncio.timeout(KILL_SECONDS),
                self._context.container.execute(kill_program(self._id, signal)) as execution,
            ):
                async for _ in execution.output():
                    pass


def _size_of(channel: SSHServerChannel[bytes]) -> tuple[int, int] | None:
    columns, rows, *_ = channel.get_terminal_size()
    is_terminal = channel.get_terminal_type() is not None
    return (columns, rows) if is_terminal and _is_size(columns, rows) else None


def _is_size(columns: int, rows: int) -> bool:
    """Return whether a terminal may have it; minimised windows have others."""
    return 0 < columns <= LARGEST_SIDE and 0 < rows <= LARGEST_SIDE


async def _resize(execution: Execution, columns: int, rows: int) -> None:
    if _is_size(columns, rows):
        await execution.resize(columns=columns, rows=rows)
