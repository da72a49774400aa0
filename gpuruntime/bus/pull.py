"""Asks one consumer for as many messages as are wanted now, and notices when it stops answering.

Contract: never more is asked for than is wanted; when less is wanted than was asked for, all of it
is taken back, and what was on its way meanwhile is still received. Few requests are under way,
however many are wanted, each with an inbox of its own. Inboxes are used until the broker refuses
one, falls silent in one for two heartbeats or goes away; then there are new ones. A broker that
has too many requests drops one without a word, so that its inbox stays silent.
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
from gpuruntime.meter import Meter, NullMeter

log = structlog.get_logger()

_encoder = msgspec.json.Encoder()
# While one request waits for the last of its messages, the other asks for all that is wanted.
INBOXES: Final = 2
_HEARTBEAT: Final = 100
_NO_MESSAGES: Final = 404
_EXPIRED: Final = 408
_NANOSECONDS: Final = 1_000_000_000


@attrs.frozen(kw_only=True, slots=True)
class PullOptions:
    """`heartbeat_seconds` is at most half of `expires_seconds`: the broker wants it so."""

    expires_seconds: float = 30.0
    heartbeat_seconds: float = 5.0
    pause_seconds: float = 1.0


@attrs.define(eq=False)
class _Inbox:
    """With one request under way at a time, or none: `asked` is what it may still bring."""

    subject: str
    asked: int = 0
    heard_at: float = 0.0


class Pull:
    """`receive` runs between two awaits and takes one off what `wanted` answers."""

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
        """What is wanted may have changed."""
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
                log.warning("asking anew", subject=self._subject, reason=self.problem)
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
        """Until these inboxes are of no more use; raises what made them so."""
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
        """Where none is free, the next message or end makes one so."""
        free = next((inbox for inbox in self._inboxes if not inbox.asked), None)
        if free is None or not batch:
            return
        free.asked, free.heard_at = batch, asyncio.get_running_loop().time()
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
        inbox.heard_at = asyncio.get_running_loop().time()
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
