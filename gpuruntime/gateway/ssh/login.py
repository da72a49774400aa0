"""The login of one SSH connection, and the requests that it then makes of the gateway."""

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final

import asyncssh
import structlog

from gpuruntime.gateway.errors import Code, GatewayError
from gpuruntime.gateway.gate import Visitor
from gpuruntime.gateway.ssh.logins import Logins
from gpuruntime.gateway.ssh.sessions import SessionChannel
from gpuruntime.gateway.ssh.unit_connection import UnitConnection
from gpuruntime.gateway.wake import Recognize, is_awake
from gpuruntime.meter import Meter

MOST_TRIES: Final = 3
# Agents offer all their keys. No key can be guessed, so more of them may be offered.
MOST_KEYS: Final = 32

log = structlog.get_logger()


class Login(asyncssh.SSHServer):
    """A caller that logs in to a unit, then opens channels.

    One that is a `visitor` of this unit already needs no ticket. Channels wait for `reached`,
    which is set after the login: to the unit's connection, or to None if there is none.
    """

    def __init__(
        self, logins: Logins, meter: Meter, *, visitor: Visitor | None, window_bytes: int
    ) -> None:
        self.reached: Final[asyncio.Future[UnitConnection | None]] = (
            asyncio.get_running_loop().create_future()
        )
        self._logins = logins
        self._meter = meter
        self._visitor = visitor
        self._window_bytes = window_bytes
        self._connection: asyncssh.SSHServerConnection
        self._proof: Recognize | None = None if visitor is None else lambda: visitor
        self._user: str | None = None
        self._tries = 0
        self._keys = 0

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn

    def begin_auth(self, username: str) -> bool:
        """Return whether the user has to present anything."""
        if self._user not in (None, username):
            self._give_up("the user may not change during a login")
        self._user = username
        return self._visitor is None or self._visitor.claims.unit != username

    def password_auth_supported(self) -> bool:
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_password(self, username: str, password: str) -> bool:
        if self._tries >= MOST_TRIES:
            return False
        proof = partial(self._logins.by_ticket, username, password)
        try:
            visitor = proof()
        except GatewayError as error:
            self._count(error)
            self._connection.send_auth_banner(f"{error}\n")
            self._tries += 1
            if self._tries == MOST_TRIES:
                self._give_up(f"no valid ticket in {MOST_TRIES} tries")
            return False
        self._proof = proof
        if visitor.unit.spec.access.wake and not is_awake(visitor.unit):
            self._connection.send_auth_banner(f"unit {username} is being resumed: please wait\n")
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        """Return whether the key counts; its owner has proven nothing yet."""
        self._proof = None
        self._keys += 1
        if self._keys > MOST_KEYS:
            if self._keys == MOST_KEYS + 1:
                self._give_up(f"no more than {MOST_KEYS} keys may be offered")
            return False
        self._proof = partial(self._logins.by_key, username, key.public_data)
        return self._logins.has_key(username, key.public_data)

    def recognize(self) -> Visitor:
        """Return the visitor after the login, as its unit is now. Raise GatewayError."""
        if self._proof is None:
            raise GatewayError(Code.TICKET_MISSING, "the login has ended")
        return self._proof()

    def refuse(self, error: GatewayError) -> None:
        """End the connection with words."""
        self._count(error)
        self._give_up(str(error))

    async def session_requested(self) -> SessionChannel:
        return (await self._unit()).open_session()

    def connection_requested(
        self, dest_host: str, dest_port: int, orig_host: str, orig_port: int
    ) -> tuple[asyncssh.SSHTCPChannel[bytes], Coroutine[Any, Any, asyncssh.SSHTCPSession[bytes]]]:
        del orig_host, orig_port

        async def opened() -> asyncssh.SSHTCPSession[bytes]:
            return await (await self._unit()).open_port(dest_host, dest_port)

        return self._connection.create_tcp_channel(window=self._window_bytes), opened()

    def unix_connection_requested(
        self, dest_path: str
    ) -> tuple[
        asyncssh.SSHUNIXChannel[bytes], Coroutine[Any, Any, asyncssh.SSHUNIXSession[bytes]]
    ]:
        async def opened() -> asyncssh.SSHUNIXSession[bytes]:
            return await (await self._unit()).open_socket(dest_path)

        return self._connection.create_unix_channel(window=self._window_bytes), opened()

    async def _unit(self) -> UnitConnection:
        """Return the unit's connection once it runs. Raise ChannelOpenError if it does not."""
        # One channel that gives up must not cancel the future of the others.
        unit = await asyncio.shield(self.reached)
        if unit is None:
            raise asyncssh.ChannelOpenError(
                asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED, "the unit is not reached"
            )
        return unit

    def _count(self, error: GatewayError) -> None:
        self._meter.count("gateway_refused_total", reason=error.reason or error.code)
        log.debug("login refused", code=error.code, reason=error.reason)

    def _give_up(self, words: str) -> None:
        self._proof = None
        code = asyncssh.DISC_NO_MORE_AUTH_METHODS_AVAILABLE
        self._connection.disconnect(code, words)
