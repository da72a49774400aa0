"""An SSH connection that has logged in to a unit: its sessions and its forwards."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final, TypeAlias

import asyncssh
import attrs
from asyncssh import SSHReader, SSHWriter
from asyncssh.stream import SSHTCPStreamSession, SSHUNIXStreamSession

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.gateway.connections import Connection, ConnectionKind, Connections
from gpuruntime.gateway.errors import GatewayError
from gpuruntime.gateway.ssh.container import ContainerError, Reach
from gpuruntime.gateway.ssh.forwards import (
    Dial,
    Forward,
    fault_of_socket,
    fault_of_target,
    socket_relay,
)
from gpuruntime.gateway.ssh.programs import FIND_SFTP_SERVER
from gpuruntime.gateway.ssh.sessions import Session, SessionChannel, SessionContext
from gpuruntime.gateway.ssh.shell_files import LARGEST_PATH, SCRIPT_SECONDS

MOST_SESSIONS: Final = 10  # of one connection, as sshd has it
_Handler: TypeAlias = Callable[[SSHReader[bytes], SSHWriter[bytes]], None]


@attrs.frozen(kw_only=True, slots=True)
class SshOptions:
    """Limits of SSH, and which files it serves.

    At most `most_logins` connections without a ticket may be logging in. `window_bytes` is what a
    caller may send in advance. Without `has_files` neither SFTP nor SCP is served; an image's own
    server of SFTP is used if `prefers_sftp_server`.
    """

    login_seconds: float
    most_logins: int
    idle_seconds: float
    longest_seconds: float
    window_bytes: int
    has_files: bool
    prefers_sftp_server: bool


class UnitConnection:
    """Run each session and forward as a task of `tasks`."""

    def __init__(
        self,
        visit: Connection,
        connections: Connections,
        reach: Reach,
        options: SshOptions,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self.moved_at = loop_time()
        self.visit: Final = visit
        self._connections = connections
        self._reach = reach
        self._options = options
        self._tasks = tasks
        self._sessions = 0
        self._running: set[SessionChannel] = set()
        self._forwards: set[asyncio.Task[None]] = set()
        self._found_sftp_server: str | None = None

    def open_session(self) -> SessionChannel:
        """Return a session. Raise ChannelOpenError if too many are open."""
        if self._sessions >= MOST_SESSIONS:
            raise asyncssh.ChannelOpenError(
                asyncssh.OPEN_RESOURCE_SHORTAGE,
                f"{MOST_SESSIONS} sessions are open: end one, or connect again",
            )
        self._sessions += 1
        has_files = self._options.has_files
        return SessionChannel(self._begin_session, self._end_session, has_files=has_files)

    async def open_port(self, host: str, port: int) -> SSHTCPStreamSession[bytes]:
        """Connect to a port of the unit's loopback. Raise ChannelOpenError."""
        _demand_allowed(fault_of_target(host, port))
        return SSHTCPStreamSession(await self._forward(lambda: self._reach.dial(port)))

    async def open_socket(self, path: str) -> SSHUNIXStreamSession[bytes]:
        """Connect to a Unix socket in the container. Raise ChannelOpenError."""
        _demand_allowed(fault_of_socket(path))
        container = self._reach.container
        return SSHUNIXStreamSession(await self._forward(lambda: socket_relay(container, path)))

    def say(self, words: str) -> None:
        """Write to the errors of each session: a client may end before it reads more."""
        for channel in self._running:
            channel.say(words)

    def end_forwards(self) -> None:
        """End all forwards; sessions end by themselves with the connection."""
        for task in self._forwards:
            task.cancel()

    def _moved(self) -> None:
        self.moved_at = loop_time()

    def _begin_session(self, channel: SessionChannel) -> None:
        self._tasks.create_task(self._run_session(channel), name="ssh session")

    def _end_session(self) -> None:
        self._sessions -= 1

    async def _run_session(self, channel: SessionChannel) -> None:
        context = SessionContext(
            container=self._reach.container,
            sftp_server=self._sftp_server,
            touch=self.visit.touch,
            moved=self._moved,
            has_files=self._options.has_files,
        )
        with ExitStack() as held:
            if self._running:  # the first one is counted with the connection
                try:
                    held.enter_context(
                        self._connections.open(self.visit.visitor, ConnectionKind.EXEC)
                    )
                except GatewayError as error:
                    channel.fail(str(error))
                    return
            self._running.add(channel)
            try:
                await Session(channel, context).run()
            finally:
                self._running.discard(channel)

    async def _sftp_server(self) -> str:
        """Return the path of the image's own server of SFTP, or nothing."""
        if not self._options.prefers_sftp_server:
            return ""
        if self._found_sftp_server is None:
            found = b""
            try:
                async with (
                    asyncio.timeout(SCRIPT_SECONDS),
                    self._reach.container.execute(FIND_SFTP_SERVER) as execution,
                ):
                    async for each in execution.output():
                        if not each.is_error:
                            found = (found + each.data)[:LARGEST_PATH]
            except TimeoutError as error:
                words = f"no answer within {SCRIPT_SECONDS:g} s"
                raise ContainerError(words) from error
            self._found_sftp_server = found.decode(errors="replace").partition("\n")[0]
        return self._found_sftp_server

    async def _forward(self, dial: Dial) -> _Handler:
        """Connect, and return what takes the caller's streams. Raise ChannelOpenError."""
        forward = Forward(dial, touch=self.visit.touch, moved=self._moved)
        task = self._tasks.create_task(self._run_forward(forward), name="ssh forward")
        self._forwards.add(task)
        task.add_done_callback(self._forwards.discard)
        if fault := await forward.opened():
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, fault)
        return forward.begin

    async def _run_forward(self, forward: Forward) -> None:
        try:
            with self._connections.open(self.visit.visitor, ConnectionKind.FORWARD):
                await forward.run()
        except GatewayError as error:
            forward.refuse(str(error))


def _demand_allowed(fault: str) -> None:
    if fault:
        raise asyncssh.ChannelOpenError(asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED, fault)
