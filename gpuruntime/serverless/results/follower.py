"""Follows the stream of records: what has ended is kept, and what outlives its deadline expires.

Contract: a record is acked when it is kept, or when a newer one stands over it; until then the
broker brings it again, to this replica or another. Nothing is scanned, and nothing is remembered.
"""

import asyncio
import base64
import binascii
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from datetime import datetime
from random import Random
from typing import Final, assert_never

import attrs
import structlog

from gpuruntime.bus.chunks import Bodies
from gpuruntime.bus.connection import Connection
from gpuruntime.bus.delivery import Delivery
from gpuruntime.bus.errors import (
    BadNameError,
    BusError,
    MalformedMessageError,
    MissingError,
    UnavailableError,
)
from gpuruntime.bus.jetstream import JetStream
from gpuruntime.bus.messages import Invocation, Record, read
from gpuruntime.bus.names import RESULTS, Names
from gpuruntime.bus.provisioning import declare_consumer
from gpuruntime.bus.pull import Pull, PullOptions
from gpuruntime.bus.records import ConflictError, Records, StoredRecord
from gpuruntime.bus.streams import results_declaration
from gpuruntime.concurrency.waiting import is_set_within
from gpuruntime.meter import Meter
from gpuruntime.serverless.results.expiry import Expire, Keep, Wait, due
from gpuruntime.serverless.results.store_state import StoreState

log = structlog.get_logger()

STARTING: Final = "the consumer of records is not there yet"
STREAMLESS: Final = "the stream of records is not there yet: an api or an activator makes it"
STOPPING: Final = "stopping"
DOUBLINGS: Final = 16


@attrs.frozen(kw_only=True, slots=True)
class ResultsOptions:
    """`grace_seconds` is how long after its deadline an invocation expires from here."""

    stream_retention_seconds: float = 86_400.0
    grace_seconds: float = 1.0
    most_in_hand: int = 32
    ack_wait_seconds: float = 30.0
    longest_pause_seconds: float = 120.0
    look_seconds: float = 10.0
    pull: PullOptions = PullOptions()


class Results:
    """Without a store, a record stays in the stream for its time and nowhere else."""

    def __init__(
        self,
        connection: Connection,
        names: Names,
        options: ResultsOptions,
        keeping: StoreState | None,
        *,
        now: Callable[[], datetime],
        rng: Random,
        meter: Meter,
    ) -> None:
        jetstream = JetStream(connection, meter=meter)
        self._connection = connection
        self._jetstream = jetstream
        self._names = names
        self._options = options
        self._keeping = keeping
        self._records = Records(jetstream, names, rng=rng)
        self._bodies = Bodies(jetstream, names)
        self._now = now
        self._rng = rng
        self._meter = meter
        self._pull = Pull(
            connection,
            names.next_record,
            wanted=self._wanted,
            receive=self._receive,
            rng=rng,
            options=options.pull,
            meter=meter,
        )
        self._problem = STARTING
        self._is_draining = False
        self._in_hand = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._tasks: asyncio.TaskGroup | None = None

    @property
    def in_hand(self) -> int:
        return self._in_hand

    @property
    def not_ready(self) -> str:
        """Why results are not kept as they come; empty where they are."""
        if self._is_draining:
            return STOPPING
        of_store = self._keeping.problem if self._keeping else ""
        return self._connection.problem or self._problem or of_store

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            tasks.create_task(self._look_after_consumer(), name="consumer of records")
            tasks.create_task(self._pull.run(), name="pull records")
            if self._keeping:
                tasks.create_task(self._keeping.run(), name="store of results")

    async def drain(self) -> None:
        """What is in hand is brought to its end; the rest is for others, or for later."""
        self._is_draining = True
        self._pull.wake()
        await self._idle.wait()

    def _wanted(self) -> int:
        if self._is_draining or self._problem:
            return 0
        return self._options.most_in_hand - self._in_hand

    def _receive(self, delivery: Delivery) -> None:
        if self._tasks is None:
            return
        self._in_hand += 1
        self._idle.clear()
        self._tasks.create_task(self._handle(delivery), name="record")

    async def _handle(self, delivery: Delivery) -> None:
        """Never fails: what could not be brought to an end comes again by itself."""
        try:
            await self._bring_to_end(delivery)
        except MalformedMessageError as error:
            log.warning("record unreadable", subject=delivery.subject, reason=str(error))
            self._meter.count("results_unreadable_total")
            await self._ack(delivery)
        except BusError as error:
            log.warning("record left", subject=delivery.subject, reason=str(error))
            self._meter.count("results_left_total")
        finally:
            self._in_hand -= 1
            if not self._in_hand:
                self._idle.set()
            self._pull.wake()

    async def _bring_to_end(self, delivery: Delivery) -> None:
        stored = self._stored_record(delivery)
        grace = self._options.grace_seconds
        match due(stored.record, now=self._now(), grace_seconds=grace):
            case Keep():
                await self._keep(stored, delivery)
            case Wait(seconds):
                await delivery.give_back(delay_seconds=seconds)
            case Expire(record):
                await self._expire(stored, record)
                await self._ack(delivery)
            case never:
                assert_never(never)

    def _stored_record(self, delivery: Delivery) -> StoredRecord:
        """Only what a function's workers may write is believed of it: the subject says whose."""
        record = read(delivery.data, Record)
        try:
            named = self._names.record_of(delivery.subject)
        except BadNameError as error:
            raise MalformedMessageError(str(error)) from error
        if named != (record.serverlessRequestID, record.invocationID):
            raise MalformedMessageError(f"{delivery.subject}: speaks of another invocation")
        return StoredRecord(record, delivery.sequence)

    async def _keep(self, stored: StoredRecord, delivery: Delivery) -> None:
        async with aclosing(self._parts(stored.record, delivery)) as parts:
            is_kept = self._keeping is None or await self._keeping.keep(
                stored, parts, written_at=delivery.stored_at
            )
        if is_kept:
            self._meter.count("serverless_invocations_ended_total", state=stored.record.state)
            await self._ack(delivery)
            return
        longest = self._options.longest_pause_seconds
        pause = min(2.0 ** min(delivery.count - 1, DOUBLINGS), longest)
        await delivery.give_back(delay_seconds=pause * self._rng.uniform(0.5, 1.0))

    async def _parts(self, record: Record, delivery: Delivery) -> AsyncGenerator[bytes, None]:
        """As far as they are there: a body that has lost one is still told as it is."""
        for part in range(record.bodyParts):
            await delivery.keep()
            try:
                yield await self._bodies.read_part(record, part)
            except MissingError as error:
                log.warning("result kept without its body", reason=str(error))
                return

    async def _expire(self, seen: StoredRecord, record: Record) -> None:
        """Whoever has written meanwhile has decided: their record comes by itself."""
        try:
            await self._records.write(
                record,
                expected=seen.revision,
                ttl_seconds=self._options.stream_retention_seconds,
            )
        except ConflictError:
            self._meter.count("results_expiries_lost_total")
            return
        self._meter.count("results_expired_total")
        log.info(
            "invocation expired",
            function=record.serverlessRequestID,
            invocation=record.invocationID,
            was=seen.record.state.value,
        )
        await _discard_message(self._jetstream, self._names, seen.record)

    async def _ack(self, delivery: Delivery) -> None:
        """One that is lost brings the record again, which changes nothing."""
        with suppress(UnavailableError):
            await delivery.ack()

    async def _look_after_consumer(self) -> None:
        """Made by whoever comes first, and made again where somebody has deleted it."""
        declaration = results_declaration(
            self._names, ack_wait_seconds=self._options.ack_wait_seconds
        )
        stream = self._names.states
        while True:
            session = await self._connection.connected()
            try:
                await declare_consumer(self._jetstream, stream, declaration)
                told = await self._jetstream.call(f"CONSUMER.INFO.{stream}.{RESULTS}")
            except MissingError:
                self._await_streams()
            except BusError as error:
                self._note(str(error))
            else:
                self._note("")
                undelivered = told.get("num_pending")
                if isinstance(undelivered, int):
                    self._meter.gauge("results_undelivered", undelivered)
            await self._until_next_look(session.ended)

    async def _until_next_look(self, lost: asyncio.Event) -> None:
        seconds = 1.0 if self._problem else self._options.look_seconds
        await is_set_within(lost, seconds)

    def _await_streams(self) -> None:
        """The api and the activator make them, and may start later than this."""
        if self._problem != STREAMLESS:
            log.info("waiting for the streams to be made")
        self._problem = STREAMLESS
        self._pull.wake()

    def _note(self, problem: str) -> None:
        if problem and problem != self._problem:
            log.warning("consumer of records not usable", reason=problem)
        self._problem = problem
        self._pull.wake()


async def _discard_message(jetstream: JetStream, names: Names, ended: Record) -> None:
    """Best effort: one that stays falls at the worker, and its time there ends with its life.

    The record of a running invocation names its message. A stream that was made anew has given
    that number to another one, so that it is looked at first.
    """
    if not ended.sequence:
        return
    with suppress(BusError):
        told = await jetstream.call(f"STREAM.MSG.GET.{names.invocations}", {"seq": ended.sequence})
        if _is_message_of(told.get("message"), names, ended):
            await jetstream.delete(names.invocations, ended.sequence)


def _is_message_of(message: object, names: Names, ended: Record) -> bool:
    if not isinstance(message, dict):
        return False
    if message.get("subject") != names.invoke(ended.serverlessRequestID):
        return False
    try:
        invocation = read(base64.b64decode(str(message.get("data", ""))), Invocation)
    except (MalformedMessageError, binascii.Error):
        return False
    return invocation.invocationID == ended.invocationID and invocation.series == ended.series
