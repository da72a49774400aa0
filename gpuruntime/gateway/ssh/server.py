"""The SSH server: connections from their login to their end, by TCP or within a WebSocket."""

import asyncio
import errno
import socket
from collections.abc import Callable, Coroutine
from contextlib import nullcontext, suppress
from datetime import datetime
from typing import Any, Final, assert_never

import asyncssh
import attrs
import structlog

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.gateway.connections import (
    Connection,
    ConnectionKind,
    Connections,
    End,
    end_of,
)
from gpuruntime.gateway.errors import Code, GatewayError
from gpuruntime.gateway.gate import Gate, Visitor
from gpuruntime.gateway.ssh.container import Reach
from gpuruntime.gateway.ssh.login import Login
from gpuruntime.gateway.ssh.logins import Logins
from gpuruntime.gateway.ssh.unit_connection import SshOptions, UnitConnection
from gpuruntime.gateway.wake import Waker
from gpuruntime.meter import Meter
from gpuruntime.models.kinds.units import GPUUnit

KEEPALIVE_SECONDS: Final = 30.0
MOST_UNANSWERED: Final = 3
CLOSING_SECONDS: Final = 5.0
_EXHAUSTED_SECONDS: Final = 1.0
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

log = structlog.get_logger()


@attrs.frozen(kw_only=True, slots=True)
class SshContext:
    """The dependencies of the server; `reach_of` returns how a unit is reached."""

    gate: Gate
    waker: Waker
    connections: Connections
    reach_of: Callable[[GPUUnit], Reach]
    meter: Meter
    now: Callable[[], datetime]


class SshServer:
    def __init__(
        self, context: SshContext, options: SshOptions, host_key: asyncssh.SSHKey
    ) -> None:
        self._context = context
        self._options = options
        self._host_key = host_key
        self._logins = Logins(
            context.gate, now=context.now, longest_seconds=options.longest_seconds
        )
        self._strangers = 0

    async def run(self, listener: socket.socket) -> None:
        """Serve the connections of a listener that does not block, until it is cancelled."""
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as tasks:
            while True:
                try:
                    caller, _ = await loop.sock_accept(listener)
                except OSError as error:
                    if error.errno in _EXHAUSTED:
                        log.warning("connection not accepted", reason=error.strerror)
                        await asyncio.sleep(_EXHAUSTED_SECONDS)
                    continue
                tasks.create_task(self.serve(caller), name="ssh connection")

    async def serve(self, caller: socket.socket, visit: Connection | None = None) -> None:
        """Serve one connection to its end, and close its socket.

        A caller that visits a unit already logs in to it without showing a ticket again.
        """
        if visit is None and self._strangers >= self._options.most_logins:
            self._context.meter.count("gateway_refused_total", reason="logins")
            caller.close()
            return
        try:
            await self._serve(caller, visit)
        except Exception:
            # A fault of one connection must end no other one.
            log.exception("ssh connection failed")

    async def _serve(self, caller: socket.socket, visit: Connection | None) -> None:
        context, window = self._context, self._options.window_bytes
        known = visit.visitor if visit else None
        login = Login(self._logins, context.meter, visitor=known, window_bytes=window)
        # Callers without a ticket must not keep out those whose ticket counts already.
        self._strangers += visit is None
        try:
            connection = await self._login(caller, login)
        finally:
            self._strangers -= visit is None
        if connection is None:
            return
        try:
            admitted = await self._awakened(connection, login)
            # It is held until the last session has ended.
            with (
                nullcontext(visit)
                if visit is not None and admitted is known
                else context.connections.open(admitted, ConnectionKind.SSH)
            ) as own:
                # What was revoked just before the connection counted.
                if reason := end_of(admitted, login.recognize().unit):
                    own.end(reason)
                async with asyncio.TaskGroup() as tasks:
                    unit = UnitConnection(
                        own,
                        context.connections,
                        context.reach_of(admitted.unit),
                        self._options,
                        tasks,
                    )
                    login.reached.set_result(unit)
                    try:
                        await self._until_over(connection, unit)
                    finally:
                        connection.abort()
                        unit.end_forwards()
        except GatewayError as error:
            login.refuse(error)
            await self._close(connection)
        finally:
            if not login.reached.done():
                login.reached.set_result(None)
            connection.abort()

    async def _awakened(self, connection: asyncssh.SSHServerConnection, login: Login) -> Visitor:
        """Return the visitor once its unit runs. Raise GatewayError, also if the caller leaves."""
        async with asyncio.TaskGroup() as tasks:
            waking = tasks.create_task(_outcome(self._context.waker.awaken(login.recognize)))
            closed = tasks.create_task(connection.wait_closed())
            await asyncio.wait((waking, closed), return_when=asyncio.FIRST_COMPLETED)
            waking.cancel()
            closed.cancel()
        if waking.cancelled():
            raise GatewayError(Code.TIMEOUT, "the caller has left")
        if isinstance(outcome := waking.result(), GatewayError):
            raise outcome
        return outcome

    async def _until_over(
        self, connection: asyncssh.SSHServerConnection, unit: UnitConnection
    ) -> None:
        """Wait until the caller leaves, or say why the connection has to end."""
        visit = unit.visit
        log.info("ssh connected", unit=visit.visitor.claims.unit, by=visit.visitor.claims.sub)
        async with asyncio.TaskGroup() as tasks:
            closed = tasks.create_task(connection.wait_closed())
            idle = tasks.create_task(self._idle(unit))
            await asyncio.wait((closed, idle, visit.ended), return_when=asyncio.FIRST_COMPLETED)
            idle.cancel()
            if not closed.done():
                words = _words_of(visit.ended.result()) if visit.ended.done() else "idle"
                log.info("ssh disconnected", unit=visit.visitor.claims.unit, reason=words)
                unit.say(words)
                connection.disconnect(asyncssh.DISC_SERVICE_NOT_AVAILABLE, f"gpuruntime: {words}")
                await asyncio.wait((closed,), timeout=CLOSING_SECONDS)
                connection.abort()

    async def _close(self, connection: asyncssh.SSHServerConnection) -> None:
        """Wait until the caller has received why it is disconnected."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_SECONDS):
                await connection.wait_closed()

    async def _idle(self, unit: UnitConnection) -> None:
        left = self._options.idle_seconds
        while left > 0:
            await asyncio.sleep(left)
            left = unit.moved_at + self._options.idle_seconds - loop_time()

    async def _login(
        self, caller: socket.socket, login: Login
    ) -> asyncssh.SSHServerConnection | None:
        """Return the connection after its login, or None if there was none."""
        try:
            return await asyncssh.run_server(
                caller,
                config=None,
                server_factory=lambda: login,
                server_host_keys=[self._host_key],
                server_version="gpuruntime",
                encoding=None,
                line_editor=False,
                window=self._options.window_bytes,
                x11_forwarding=False,
                agent_forwarding=False,
                host_based_auth=False,
                gss_host=None,
                x509_trusted_certs=None,
                compression_algs=None,
                login_timeout=self._options.login_seconds,
                keepalive_interval=KEEPALIVE_SECONDS,
                keepalive_count_max=MOST_UNANSWERED,
            )
        except (asyncssh.Error, OSError) as error:
            log.debug("ssh login failed", reason=type(error).__name__)
            return None


async def _outcome(admission: Coroutine[Any, Any, Visitor]) -> Visitor | GatewayError:
    try:
        return await admission
    except GatewayError as error:
        return error


def _words_of(end: End) -> str:
    match end:
        case End.STOPPING:
            return "this replica is stopping: connect again"
        case End.UNKNOWN:
            return "the cluster is silent: connect again later"
        case End.EXPIRED | End.UNIT_GONE | End.REVOKED | End.SUSPENDED:
            return f"the login has ended: {end}"
        case _:
            assert_never(end)
