"""Follows the stream of records: keeps ended invocations and expires overdue ones.

Contract: a record is acked once it is kept or a newer one replaces it. Until then the broker
redelivers it to this replica or another. Nothing is scanned, and nothing is remembered.
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

STARTING: Final = "the consumer of records does not exist yet"
STREAMLESS: Final = "the stream of records does not exist yet: an api or an activator creates it"
STOPPING: Final = "stopping"
DOUBLINGS: Final = 16
MOST_IN_HAND: Final = 32


@attrs.frozen(kw_only=True, slots=True)
class ResultsOptions:
    """`grace_seconds` is how long after its deadline an invocation is expired here."""

    stream_retention_seconds: float
    grace_seconds: float = 1.0
    ack_wait_seconds: float = 30.0
    longest_pause_seconds: float = 120.0
    look_seconds: float = 10.0
    pull: PullOptions = PullOptions()


class Results:
    """Handles all records. Without a store, a record lives only in the stream, for its TTL."""

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
        """Return why results are not kept as they arrive; empty while they are."""
        if self._is_draining:
            return STOPPING
        of_store = self._keeping.problem if self._keeping else ""
        return self._connection.problem or self._problem or of_store

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            tasks.create_task(self._keep_consumer(), name="consumer of records")
            tasks.create_task(self._pull.run(), name="pull records")
            if self._keeping:
                tasks.create_task(self._keeping.run(), name="store of results")

    async def drain(self) -> None:
        """Finish the records in progress; the rest is left for other replicas or later."""
        self._is_draining = True
        self._pull.wake()
        await self._idle.wait()

    def _wanted(self) -> int:
        if self._is_draining or self._problem:
            return 0
        return MOST_IN_HAND - self._in_hand

    def _receive(self, delivery: Delivery) -> None:
        if self._tasks is None:
            return
        self._in_hand += 1
        self._idle.clear()
        self._tasks.create_task(self._handle(delivery), name="record")

    async def _handle(self, delivery: Delivery) -> None:
        """Handle a record without ever raising: the broker redelivers what is left open."""
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
        """Return the record if it names the function and invocation of its subject.

        A function's workers may write only under its own subjects.
        """
        record = read(delivery.data, Record)
        try:
            named = self._names.record_of(delivery.subject)
        except BadNameError as error:
            raise MalformedMessageError(str(error)) from error
        if named != (record.serverlessRequestID, record.invocationID):
            raise MalformedMessageError(f"{delivery.subject}: the record names another invocation")
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
        """Yield the parts of the body up to the first missing one; the result is kept anyway."""
        for part in range(record.bodyParts):
            await delivery.keep()
            try:
                yield await self._bodies.read_part(record, part)
            except MissingError as error:
                log.warning("result kept without its body", reason=str(error))
                return

    async def _expire(self, seen: StoredRecord, record: Record) -> None:
        """Write the expired record; if another write came first, its record is delivered next."""
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
        """Acknowledge the record. If the ack is lost, a redelivery changes nothing."""
        with suppress(UnavailableError):
            await delivery.ack()

    async def _keep_consumer(self) -> None:
        """Create the consumer, and recreate it if it was deleted; any replica may do so."""
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
            await self._until_next_check(session.ended)

    async def _until_next_check(self, lost: asyncio.Event) -> None:
        seconds = 1.0 if self._problem else self._options.look_seconds
        await is_set_within(lost, seconds)

    def _await_streams(self) -> None:
        """Wait for the streams, which the API and the activator create, perhaps later."""
        if self._problem != STREAMLESS:
            log.info("waiting for the streams")
        self._problem = STREAMLESS
        self._pull.wake()

    def _note(self, problem: str) -> None:
        if problem and problem != self._problem:
            log.warning("consumer of records not usable", reason=problem)
        self._problem = problem
        self._pull.wake()


async def _discard_message(jetstream: JetStream, names: Names, ended: Record) -> None:
    """Try to delete the queued message of an ended invocation; otherwise a worker drops it.

    The record of a running invocation has the sequence of its message. A recreated stream may have
    reused that sequence, so the message is read first.
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
