"""Pull requests to one consumer for as many messages as are wanted now.

Contract: it never requests more than is wanted. If less is wanted than was requested, it takes
back all requests, and still receives what was in transit. Few requests are open at a time, each
with its own inbox. New inboxes replace the old ones if the broker refuses a request, stays silent
for two heartbeats, or disconnects. A broker with too many requests drops one silently, and only
the missing heartbeats show it.
"""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from random import Random
from typing import Final

import attrs
import msgspec
import structlog

from gpuruntime.bus.connection import Connection
from gpuruntime.bus.delivery import Delivery, delivery_of
from gpuruntime.bus.errors import BusError, MalformedMessageError, UnavailableError
from gpuruntime.bus.session import Message, Session
from gpuruntime.concurrency.clock import loop_time
from gpuruntime.meter import Meter, NullMeter

log = structlog.get_logger()

_encoder = msgspec.json.Encoder()
# While one request waits for its last messages, the other requests all that is wanted.
INBOXES: Final = 2
_HEARTBEAT: Final = 100
_NO_MESSAGES: Final = 404
_EXPIRED: Final = 408
_NANOSECONDS: Final = 1_000_000_000


@attrs.frozen(kw_only=True, slots=True)
class PullOptions:
    """`heartbeat_seconds` is at most half of `expires_seconds`; the broker requires it."""

    expires_seconds: float = 30.0
    heartbeat_seconds: float = 5.0
    pause_seconds: float = 1.0


@attrs.define(eq=False)
class _Inbox:
    """An inbox with at most one open request; `asked` is how many messages it may still bring."""

    subject: str
    asked: int = 0
    heard_at: float = 0.0


class Pull:
    """`receive` must not block and must lower what `wanted` returns by one."""

    def __init__(
        self,
        connection: Connection,
        subject: str,
        *,
        wanted: Callable[[], int],
        receive: Callable[[Delivery], None],
        rng: Random,
        options: PullOptions = PullOptions(),
        meter: Meter = NullMeter(),
    ) -> None:
        self.problem = ""
        self._connection = connection
        self._subject = subject
        self._wanted = wanted
        self._receive = receive
        self._rng = rng
        self._options = options
        self._meter = meter
        self._woken = asyncio.Event()
        self._inboxes: tuple[_Inbox, ...] = ()
        self._refusal = ""

    def wake(self) -> None:
        """Look at `wanted` again, because its value may have changed."""
        self._woken.set()

    async def run(self) -> None:
        while True:
            await self._until_wanted()
            session = await self._connection.connected()
            session.at_end(self.wake)
            try:
                await self._pull_from(session)
            except BusError as error:
                self.problem = str(error)
            finally:
                session.forget(self.wake)
            if self.problem:
                log.warning("pull restarted", subject=self._subject, reason=self.problem)
                self._meter.count("bus_pulls_lost_total")
                await asyncio.sleep(self._options.pause_seconds * self._rng.uniform(0.5, 1.0))

    async def _until_wanted(self) -> None:
        while self._wanted() <= 0:
            self._woken.clear()
            await self._woken.wait()

    @property
    def _asked(self) -> int:
        return sum(inbox.asked for inbox in self._inboxes)

    async def _pull_from(self, session: Session) -> None:
        """Pull until less is wanted than was requested; raise BusError when the inboxes fail."""
        self._inboxes = tuple(_Inbox(session.new_inbox()) for _ in range(INBOXES))
        self._refusal = ""
        async with AsyncExitStack() as stack:
            for inbox in self._inboxes:
                receive = partial(self._on_message, inbox)
                subscription = await session.subscribe(inbox.subject, receive)
                stack.push_async_callback(subscription.close)
            while self._asked <= (wanted := self._wanted()):
                await self._ask(session, wanted - self._asked)
                await self._until_changed()
                if session.ended.is_set():
                    raise UnavailableError("the connection ended")
                if self._refusal:
                    raise UnavailableError(self._refusal)

    async def _ask(self, session: Session, batch: int) -> None:
        """Send a request if an inbox is free; otherwise the next message or end frees one."""
        free = next((inbox for inbox in self._inboxes if not inbox.asked), None)
        if free is None or not batch:
            return
        free.asked, free.heard_at = batch, loop_time()
        request = {
            "batch": batch,
            "expires": int(self._options.expires_seconds * _NANOSECONDS),
            "idle_heartbeat": int(self._options.heartbeat_seconds * _NANOSECONDS),
        }
        await session.publish(self._subject, _encoder.encode(request), reply=free.subject)

    def _silent_at(self) -> float | None:
        heard_at = min((inbox.heard_at for inbox in self._inboxes if inbox.asked), default=None)
        return None if heard_at is None else heard_at + 2 * self._options.heartbeat_seconds

    async def _until_changed(self) -> None:
        silent_at = self._silent_at()
        try:
            async with asyncio.timeout_at(silent_at):
                await self._woken.wait()
        except TimeoutError:
            if self._silent_at() == silent_at:
                self._refusal = "two heartbeats are missing"
        self._woken.clear()

    def _on_message(self, inbox: _Inbox, message: Message) -> None:
        inbox.heard_at = loop_time()
        if message.status == _HEARTBEAT:
            self.problem = ""
            return
        if message.status in (_EXPIRED, _NO_MESSAGES):
            inbox.asked = 0
        elif message.status:
            self._refusal = f"{message.status} {message.description}"
        else:
            inbox.asked = max(0, inbox.asked - 1)
            self._on_delivery(message)
        self._woken.set()

    def _on_delivery(self, message: Message) -> None:
        self.problem = ""
        try:
            delivery = delivery_of(message, self._connection)
        except MalformedMessageError as error:
            log.warning("message dropped", reason=str(error))
            return
        self._receive(delivery)
