"""Credentials are loaded again before they expire and when the server refuses them."""

import asyncio
import math
from collections.abc import Callable
from datetime import datetime

import attrs
from structlog import get_logger

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.errors import ConfigurationError
from gpuruntime.kube.connect.endpoint import Endpoint, Source
from gpuruntime.kube.connect.sessions import Sessions

log = get_logger()

# the kubelet rotates a token minutes before it expires, with a fifth of its life left
REREAD_SECONDS = 60.0
RETRY_SECONDS = 10.0
SPENT_LIFE = 0.8


@attrs.frozen(slots=True, eq=False)
class Connection:
    """The identity and the sessions that one loading produced."""

    access: Endpoint
    sessions: Sessions

    def is_like(self, other: "Connection") -> bool:
        is_same_bearer = self.access.authorization == other.access.authorization
        return is_same_bearer and self.sessions is other.sessions


class Credentials:
    """Loads run one at a time, in a worker thread and with their own deadline.

    Requests wait for a load only if their credentials were refused or have expired. Others go on
    with the current connection.
    """

    def __init__(self, source: Source, *, now: Callable[[], datetime]) -> None:
        self._source = source
        self._now = now
        self._connection: Connection | None = None
        self._loading: asyncio.Future[Endpoint] | None = None
        self._renew_at = 0.0
        self._expires_at = math.inf
        self._pause_until = 0.0

    async def start(self) -> None:
        """Load for the first time. Raise ConfigurationError, which the operator has to resolve."""
        self._loading = self._begun()
        await asyncio.wait({self._loading})
        await self._adopt(self._loading)

    @property
    def access(self) -> Endpoint:
        return self._started.access

    async def current(self, deadline: float) -> Connection:
        """Return the connection to use now. Wait only if its credentials have expired."""
        await self._adopt_finished()
        moment = loop_time()
        if moment >= self._renew_at:
            self._loading = self._begun()
        if moment >= self._expires_at:
            await self._wait(deadline)
        return self._started

    async def renewed(self, refused: Connection, deadline: float) -> Connection | None:
        """Return the connection to use after a 401, or None if there is nothing new to try."""
        await self._adopt_finished()
        if self._started.is_like(refused):
            if loop_time() >= self._pause_until:
                self._loading = self._begun()
            await self._wait(deadline)
        return None if self._started.is_like(refused) else self._started

    async def close(self) -> None:
        self._source.stop()
        if self._loading is not None:
            await asyncio.wait({self._loading})
            self._loading.exception()
        if self._connection is not None:
            await self._connection.sessions.close()

    @property
    def _started(self) -> Connection:
        if self._connection is None:
            raise ConfigurationError("the credentials were not loaded: start() comes first")
        return self._connection

    def _begun(self) -> asyncio.Future[Endpoint]:
        return self._loading or asyncio.get_running_loop().run_in_executor(None, self._source.load)

    async def _wait(self, deadline: float) -> None:
        """Wait until the loading ends or the deadline passes. The loading itself goes on."""
        if self._loading is not None:
            await asyncio.wait({self._loading}, timeout=max(0.0, deadline - loop_time()))
            await self._adopt_finished()

    async def _adopt_finished(self) -> None:
        if self._loading is None or not self._loading.done():
            return
        try:
            await self._adopt(self._loading)
        except ConfigurationError as error:
            self._renew_at = self._pause_until = loop_time() + RETRY_SECONDS
            log.warning("credentials not renewed", error=str(error))

    async def _adopt(self, loading: asyncio.Future[Endpoint]) -> None:
        self._loading = None
        access, old = loading.result(), self._connection
        is_alike = old is not None and old.access.fingerprint == access.fingerprint
        sessions = old.sessions if old is not None and is_alike else Sessions(access)
        self._connection = Connection(access, sessions)
        self._schedule(access, is_first=old is None)
        if old is not None and not is_alike:
            await old.sessions.retire()

    def _schedule(self, access: Endpoint, *, is_first: bool) -> None:
        moment = loop_time()
        self._renew_at = moment + _renewal_seconds(
            access, self._now(), is_costly=self._source.is_costly
        )
        self._expires_at = moment + _life_seconds(access, self._now())
        # If the server refuses a plugin's credentials, the plugin is not run again for each
        # request.
        is_paused = self._source.is_costly and not is_first
        self._pause_until = moment + RETRY_SECONDS if is_paused else moment


def _life_seconds(access: Endpoint, now: datetime) -> float:
    """Return the remaining life. Credentials that arrive expired count as endless.

    The server judges them, and no request waits for them.
    """
    if access.expires_at is None:
        return math.inf
    life = (access.expires_at - now).total_seconds()
    return life if life > 0 else math.inf


def _renewal_seconds(access: Endpoint, now: datetime, *, is_costly: bool) -> float:
    if access.expires_at is not None:
        life = (access.expires_at - now).total_seconds()
        return max(life * SPENT_LIFE, RETRY_SECONDS)
    return math.inf if is_costly else REREAD_SECONDS
