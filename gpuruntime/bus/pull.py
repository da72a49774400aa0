"""Asks one consumer for as many messages as are wanted now, and notices when it stops answering.

Contract: never more is asked for than is wanted; when less is wanted than was asked for, all of it
is taken back, and what was on its way meanwhile is still received. Each inbox is used until the
broker refuses it, falls silent for two heartbeats or goes away; then there is a new one.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final

import attrs
import msgspec
import structlog

from gpuruntime.bus.connection import Connection
from gpuruntime.bus.delivery import Delivery, delivery_of
from gpuruntime.bus.errors import BusError, MalformedMessageError, UnavailableError
from gpuruntime.bus.message import Message
from gpuruntime.bus.session import Session
from gpuruntime.meter import Meter, NullMeter

log = structlog.get_logger()

_encoder = msgspec.json.Encoder()
_HEARTBEAT: Final = 100
_NO_MESSAGES: Final = 404
_EXPIRED: Final = 408
_PENDING: Final = "Nats-Pending-Messages"
_NANOSECONDS: Final = 1_000_000_000


@attrs.frozen(kw_only=True, slots=True)
class PullOptions:
    """`heartbeat_seconds` is at most half of `expires_seconds`: the broker wants it so."""

    expires_seconds: float = 30.0
    heartbeat_seconds: float = 5.0
    pause_seconds: float = 1.0


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
        self._asked = 0
        self._refusal = ""
        self._heard_at = 0.0

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

    async def _pull_from(self, session: Session) -> None:
        """Until this inbox is of no more use; raises what made it so."""
        self._asked, self._refusal = 0, ""
        inbox = session.new_inbox()
        subscription = await session.subscribe(inbox, self._on_message)
        try:
            while self._asked <= (wanted := self._wanted()):
                if wanted > self._asked:
                    await self._ask(session, inbox, wanted - self._asked)
                await self._until_changed()
                if session.ended.is_set():
                    raise UnavailableError("the connection ended")
                if self._refusal:
                    raise UnavailableError(self._refusal)
        finally:
            await subscription.close()

    async def _ask(self, session: Session, inbox: str, batch: int) -> None:
        if self._asked == 0:
            self._heard_at = asyncio.get_running_loop().time()
        self._asked += batch
        request = {
            "batch": batch,
            "expires": int(self._options.expires_seconds * _NANOSECONDS),
            "idle_heartbeat": int(self._options.heartbeat_seconds * _NANOSECONDS),
        }
        await session.publish(self._subject, _encoder.encode(request), reply=inbox)

    async def _until_changed(self) -> None:
        silent_at = self._heard_at + 2 * self._options.heartbeat_seconds
        try:
            async with asyncio.timeout_at(silent_at if self._asked else None):
                await self._woken.wait()
        except TimeoutError:
            heard_at = self._heard_at
            if heard_at + 2 * self._options.heartbeat_seconds <= silent_at:
                self._refusal = "two heartbeats are missing"
        self._woken.clear()

    def _on_message(self, message: Message) -> None:
        self._heard_at = asyncio.get_running_loop().time()
        if message.status == _HEARTBEAT:
            self.problem = ""
            return
        if message.status:
            self._on_end(message)
        else:
            self._on_delivery(message)
        self._woken.set()

    def _on_delivery(self, message: Message) -> None:
        self.problem = ""
        self._asked = max(0, self._asked - 1)
        try:
            delivery = delivery_of(message, self._connection)
        except MalformedMessageError as error:
            log.warning("message dropped", reason=str(error))
            return
        self._receive(delivery)

    def _on_end(self, message: Message) -> None:
        """One request has come to its end with what is still missing of it, or all of them."""
        missing = message.headers.get(_PENDING, "")
        if message.status in (_EXPIRED, _NO_MESSAGES) and missing.isdigit():
            self._asked = max(0, self._asked - int(missing))
        else:
            self._refusal = f"{message.status} {message.description}"
