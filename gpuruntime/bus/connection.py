"""The connection of a role: it opens one session after the other and reports its state.

Contract: `run` never gives up, and it reads the credentials again for every session. So neither a
broker that comes back nor a renewed secret requires a restart.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Final, TypeAlias

import attrs
import structlog

from gpuruntime.bus.credentials import ConnectionOptions
from gpuruntime.bus.errors import UnavailableError
from gpuruntime.bus.session import Message, Receive, Session, Subscription, open_session
from gpuruntime.concurrency.clock import loop_time
from gpuruntime.meter import Meter, NullMeter

log = structlog.get_logger()

Opener: TypeAlias = Callable[[ConnectionOptions], Awaitable[Session]]
FIRST_PAUSE_SECONDS: Final = 0.1
LONGEST_PAUSE_SECONDS: Final = 5.0
# A session that lasted longer than this resets the pause to the first one.
GOOD_SESSION_SECONDS: Final = 30.0


@attrs.define(eq=False)
class _Listener:
    """`session` is the session of the last subscription, or None once the listener has left."""

    subject: str
    receive: Receive
    session: Session | None = None
    subscription: Subscription | None = None

    async def listen(self, session: Session) -> None:
        """Subscribe on this session, or raise UnavailableError."""
        self.session = session
        made = await session.subscribe(self.subject, self.receive)
        if self.session is session:
            self.subscription = made
        else:
            await made.close()

    async def leave(self) -> None:
        self.session = None
        if self.subscription is not None:
            await self.subscription.close()


class Connection:
    def __init__(
        self,
        options: ConnectionOptions,
        *,
        rng: Random,
        meter: Meter = NullMeter(),
        opener: Opener = open_session,
    ) -> None:
        """`opener` raises UnavailableError if it cannot open a session."""
        self._options = options
        self._opener = opener
        self._rng = rng
        self._meter = meter
        self._session: Session | None = None
        self._problem = "not connected yet"
        self._changed = asyncio.Condition()
        # Kept in the order of their arrival.
        self._listeners: dict[_Listener, None] = {}
        self._pause_seconds = FIRST_PAUSE_SECONDS

    @property
    def is_connected(self) -> bool:
        return self._session is not None

    @property
    def problem(self) -> str:
        """Return why there is no session; empty while there is one."""
        return "" if self.is_connected else self._problem

    @property
    def session(self) -> Session:
        """Return the current session, or raise UnavailableError."""
        if self._session is None:
            raise UnavailableError(f"broker not reachable: {self._problem}")
        return self._session

    async def connected(self) -> Session:
        async with self._changed:
            await self._changed.wait_for(lambda: self._session is not None)
        return self.session

    async def run(self) -> None:
        self._meter.gauge("bus_connected", 0)
        while True:
            started = loop_time()
            try:
                await self._serve(await self._opener(self._options))
                self._note("the connection ended")
            except UnavailableError as error:
                self._note(str(error))
            if loop_time() - started > GOOD_SESSION_SECONDS:
                self._pause_seconds = FIRST_PAUSE_SECONDS
            await asyncio.sleep(self._pause_seconds * self._rng.uniform(0.5, 1.0))
            self._pause_seconds = min(2 * self._pause_seconds, LONGEST_PAUSE_SECONDS)

    async def publish(
        self, subject: str, data: bytes, *, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send the message at most once; there is no acknowledgement."""
        await self.session.publish(subject, data, headers=headers)

    async def request(
        self,
        subject: str,
        data: bytes,
        *,
        within_seconds: float,
        headers: Mapping[str, str] | None = None,
    ) -> Message:
        return await self.session.request(
            subject, data, within_seconds=within_seconds, headers=headers
        )

    @asynccontextmanager
    async def listening(self, subject: str, receive: Receive) -> AsyncIterator[None]:
        """Subscribe on every session while the context is open.

        A message sent between two sessions is lost.
        """
        listener = _Listener(subject, receive)
        self._listeners[listener] = None
        try:
            # A session that is ending delivers nothing more; the next one starts with all
            # listeners.
            with suppress(UnavailableError):
                await listener.listen(self.session)
            yield
        finally:
            del self._listeners[listener]
            await listener.leave()

    async def _serve(self, session: Session) -> None:
        """Publish the session only after all listeners have subscribed on it."""
        try:
            # Listeners may arrive or leave while others are subscribing.
            while waiting := [each for each in self._listeners if each.session is not session]:
                for listener in waiting:
                    if listener in self._listeners:
                        await listener.listen(session)
            self._session = session
            await self._announce()
            await session.ended.wait()
        finally:
            self._session = None
            await session.close()

    async def _announce(self) -> None:
        log.info("broker connected", where=self.session.where)
        self._meter.gauge("bus_connected", 1)
        async with self._changed:
            self._changed.notify_all()

    def _note(self, problem: str) -> None:
        if problem != self._problem:
            log.warning("broker lost", reason=problem)
        self._problem = problem
        self._meter.gauge("bus_connected", 0)
        self._meter.count("bus_sessions_lost_total")
