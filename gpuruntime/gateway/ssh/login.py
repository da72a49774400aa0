"""The login of one SSH connection, and the requests that it then makes of the gateway."""

from collections.abc import Callable, Coroutine
from typing import Any, Final

import asyncssh
import structlog

from gpuruntime.gateway.errors import GatewayError
from gpuruntime.gateway.gate import Visitor
from gpuruntime.gateway.ssh.logins import Logins
from gpuruntime.gateway.ssh.sessions import SessionChannel
from gpuruntime.gateway.ssh.unit_connection import UnitConnection
from gpuruntime.meter import Meter

MOST_TRIES: Final = 3
# Agents offer all their keys. No key can be guessed, so more of them may be offered.
MOST_KEYS: Final = 32

log = structlog.get_logger()


class Login(asyncssh.SSHServer):
    """A caller that logs in to a unit, then opens channels.

    One that is a `visitor` of this unit already needs no ticket. `begin` is called once, when the
    login is complete; it raises GatewayError.
    """

    def __init__(
        self,
        logins: Logins,
        meter: Meter,
        *,
        visitor: Visitor | None,
        begin: Callable[[asyncssh.SSHServerConnection, Visitor], UnitConnection],
    ) -> None:
        self._logins = logins
        self._meter = meter
        self._visitor = visitor
        self._begin = begin
        self._connection: asyncssh.SSHServerConnection
        self._unit: UnitConnection | None = None
        self._user: str | None = None
        self._key = b""
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
        try:
            self._visitor = self._logins.by_ticket(username, password)
        except GatewayError as error:
            self._count(error)
            self._connection.send_auth_banner(f"{error}\n")
            self._tries += 1
            if self._tries == MOST_TRIES:
                self._give_up(f"no valid ticket in {MOST_TRIES} tries")
            return False
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        """Return whether the key counts; its owner has proven nothing yet."""
        self._visitor = None
        self._keys += 1
        if self._keys > MOST_KEYS:
            if self._keys == MOST_KEYS + 1:
                self._give_up(f"no more than {MOST_KEYS} keys may be offered")
            return False
        self._key = key.public_data
        return self._logins.has_key(username, self._key)

    def auth_completed(self) -> None:
        """Begin the connection. A key is looked up again: now its owner has proven it."""
        try:
            visitor = self._visitor or self._logins.by_key(self._user or "", self._key)
            if visitor is None:
                self._give_up("the unit no longer lists the key")
                return
            self._unit = self._begin(self._connection, visitor)
        except GatewayError as error:
            self._count(error)
            self._give_up(str(error))

    def session_requested(self) -> SessionChannel:
        return self._reached().open_session()

    def connection_requested(
        self, dest_host: str, dest_port: int, orig_host: str, orig_port: int
    ) -> tuple[asyncssh.SSHTCPChannel[bytes], Coroutine[Any, Any, asyncssh.SSHTCPSession[bytes]]]:
        del orig_host, orig_port
        return self._reached().open_port(dest_host, dest_port)

    def unix_connection_requested(
        self, dest_path: str
    ) -> tuple[
        asyncssh.SSHUNIXChannel[bytes], Coroutine[Any, Any, asyncssh.SSHUNIXSession[bytes]]
    ]:
        return self._reached().open_socket(dest_path)

    def _reached(self) -> UnitConnection:
        if self._unit is None:
            raise asyncssh.ChannelOpenError(
                asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED, "the login is not complete"
            )
        return self._unit

    def _count(self, error: GatewayError) -> None:
        self._meter.count("gateway_refused_total", reason=error.reason or error.code)
        log.debug("login refused", code=error.code, reason=error.reason)

    def _give_up(self, words: str) -> None:
        self._visitor, self._key = None, b""
        code = asyncssh.DISC_NO_MORE_AUTH_METHODS_AVAILABLE
        self._connection.disconnect(code, words)
