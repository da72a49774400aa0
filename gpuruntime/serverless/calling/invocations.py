"""Accepted invocations: read them, wait for their end, and cancel them.

They are read from the stream of records first, then from the result store if there is one.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import Final

import attrs
import msgspec
import structlog

from gpuruntime.bus.batch_reads import Batch, read_batch
from gpuruntime.bus.chunks import Bodies
from gpuruntime.bus.errors import BadNameError, BusError, MalformedMessageError, MissingError
from gpuruntime.bus.messages import Control, ControlCommand, Record, encode
from gpuruntime.bus.names import Names, is_function_name, is_invocation_id
from gpuruntime.bus.records import ConflictError, StoredRecord, record_of
from gpuruntime.concurrency.clock import loop_time
from gpuruntime.meter import Meter, NullMeter
from gpuruntime.models.kinds.invocations import FailureClass, State, WaitingFor
from gpuruntime.models.requests.invocations import Invoke
from gpuruntime.serverless.broker import BrokerLink
from gpuruntime.serverless.calling.acceptance import Acceptance, message_of
from gpuruntime.serverless.calling.queue_places import QueuePlaces
from gpuruntime.serverless.calling.waiting import RecordWatch, watching
from gpuruntime.serverless.errors import (
    AlreadyFinishedError,
    InvocationNotFoundError,
    QueueAwayError,
    UnknownOutcomeError,
    bus_translated,
)
from gpuruntime.serverless.results.store import ResultReader

log = structlog.get_logger()

# How often a worker may change the record while it is being cancelled.
LOOKS: Final = 5
# How many bytes of answers a page reads: they are read with it, then left out.
MOST_PAGE_BYTES: Final = 16 * 1024 * 1024
# Far above the longest answer that a worker accepts; longer bodies are not read.
MOST_PARTS: Final = 64


@attrs.frozen(kw_only=True, slots=True)
class Outcome:
    """A record with its body, wherever the body was stored, and its place while it is queued."""

    record: Record
    body: msgspec.Raw
    is_duplicate: bool = False
    position: int | None = None
    waiting_for: WaitingFor | None = None


@attrs.frozen(kw_only=True, slots=True)
class RecordPage:
    """`next` is the sequence after which the next page begins; 0 on the last page."""

    records: tuple[Record, ...]
    next: int


class Invocations:
    def __init__(
        self,
        queue: BrokerLink,
        acceptance: Acceptance,
        places: QueuePlaces,
        *,
        now: Callable[[], datetime],
        retention_seconds: float,
        results: ResultReader | None = None,
        meter: Meter = NullMeter(),
    ) -> None:
        self._queue = queue
        self._acceptance = acceptance
        self._places = places
        self._bodies = Bodies(queue.jetstream, queue.names)
        self._now = now
        self._retention_seconds = retention_seconds
        self._results = results
        self._meter = meter

    async def read(self, function: str, invocation: str) -> Outcome:
        with bus_translated():
            self._queue.demand()
            return await self._shown(await self._find(function, invocation))

    async def page(
        self,
        function: str,
        *,
        limit: int,
        after: int,
        state: str = "",
        tenants: frozenset[str] | None = None,
    ) -> RecordPage:
        """Return a page of the records that the broker keeps, the oldest change first.

        A page may be shorter than `limit`. Records of other tenants than these are left out: the
        function's name may have been another tenant's.
        """
        queue, left = self._queue, 1
        found: list[Record] = []
        with bus_translated():
            queue.demand()
            while left and not found:
                batch = await read_batch(
                    queue.connection,
                    queue.names.states,
                    queue.names.states_of(function),
                    after=after,
                    most=limit,
                    most_bytes=MOST_PAGE_BYTES,
                )
                if not batch.messages:
                    return RecordPage(records=(), next=0)
                after, left = batch.messages[-1].sequence, batch.left
                found = [
                    record
                    for record in _listed(batch, queue.names)
                    if (not state or record.state == state)
                    and (tenants is None or record.tenant in tenants)
                ]
        return RecordPage(records=tuple(found), next=after if left else 0)

    async def call(self, request: Invoke, *, is_wanted: Callable[[], bool]) -> Outcome:
        """Accept the invocation, and return it once it has ended or `waitSeconds` are over.

        The wait ends early if the caller has disconnected. The invocation goes on.
        """
        started = loop_time()
        named = self._acceptance.named(request)
        with bus_translated():
            self._queue.demand()
            function, invocation = named.serverlessRequestID, named.invocationID
            async with watching(self._queue, function, invocation) as watch:
                accepted = await self._acceptance.accept(named)
                try:
                    left = started + named.waitSeconds - loop_time()
                    ended = await self._end_of(accepted.record, watch, is_wanted, seconds=left)
                    stored = StoredRecord(ended, 0) if ended else None
                    outcome = await self._shown(stored or await self._find(function, invocation))
                except BusError as error:
                    raise _unread(accepted.record, error) from error
        return attrs.evolve(outcome, is_duplicate=accepted.is_duplicate)

    async def cancel(self, function: str, invocation: str) -> None:
        """Cancel the invocation.

        Its worker may stop and its message may be deleted after this returns.
        """
        with bus_translated():
            self._queue.demand()
            found = await self._find(function, invocation)
            for _ in range(LOOKS):
                try:
                    await self._cancel(found)
                except ConflictError as conflict:
                    if conflict.current is None:
                        raise missing_invocation(function, invocation) from conflict
                    found = conflict.current
                else:
                    return
        raise QueueAwayError(f"invocation {invocation} keeps changing: cancel it again")

    async def _find(self, function: str, invocation: str) -> StoredRecord:
        if not is_function_name(function) or not is_invocation_id(invocation):
            raise missing_invocation(function, invocation)
        records = self._queue.records
        found = await records.read(function, invocation)
        if found is None and self._results is not None:
            found = await self._results.read(function, invocation)
        if found is None:
            found = await records.read_latest(function, invocation)
        if found is None:
            raise missing_invocation(function, invocation)
        return found

    async def _shown(self, stored: StoredRecord) -> Outcome:
        outcome = await self._whole(stored)
        place = await self._places.place_of(stored.record)
        return attrs.evolve(outcome, position=place.position, waiting_for=place.waiting_for)

    async def _whole(self, stored: StoredRecord) -> Outcome:
        """Return the record with its body; if the body has expired, so has the invocation."""
        record = stored.record
        if not record.bodyParts:
            return Outcome(record=record, body=record.body)
        if record.bodyParts > MOST_PARTS:
            raise MalformedMessageError(
                f"{record.serverlessRequestID}/{record.invocationID}: a body in "
                f"{record.bodyParts} parts"
            )
        try:
            parts = [await self._part(stored, part) for part in range(record.bodyParts)]
        except MissingError as error:
            raise missing_invocation(record.serverlessRequestID, record.invocationID) from error
        return Outcome(record=record, body=msgspec.Raw(b"".join(parts)))

    async def _part(self, stored: StoredRecord, part: int) -> bytes:
        try:
            return await self._bodies.read_part(stored.record, part)
        except MissingError:
            if self._results is None:
                raise
            return await self._results.read_part(stored, part)

    async def _end_of(
        self,
        record: Record,
        watch: RecordWatch,
        is_wanted: Callable[[], bool],
        *,
        seconds: float,
    ) -> Record | None:
        """Return the end, or None if it does not come within these seconds."""
        started = loop_time()
        ended = record if record.state.is_terminal else None
        if ended is None and seconds > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    ended = await watch.end(is_wanted=is_wanted)
        self._meter.observe(
            "serverless_sync_wait_seconds",
            loop_time() - started,
            outcome=ended.state.value if ended else "unfinished",
        )
        return ended

    async def _cancel(self, found: StoredRecord) -> None:
        record = found.record
        if record.state.is_terminal:
            raise AlreadyFinishedError(
                f"invocation {record.invocationID} of function {record.serverlessRequestID} is "
                f"{record.state} already"
            )
        cancelled = attrs.evolve(
            record,
            state=State.CANCELLED,
            failureClass=FailureClass.CANCELLED,
            error="cancelled by a caller",
            completedAt=self._now(),
        )
        await self._queue.records.write(
            cancelled, expected=found.revision, ttl_seconds=self._retention_seconds
        )
        with suppress(BusError):
            if record.state is State.RUNNING:
                await self._tell_worker(record)
            elif record.attempt == 0:
                await self._drop_message(found)

    async def _tell_worker(self, record: Record) -> None:
        """Order the worker to stop; if that is lost, it sees the record within the ack wait."""
        subject = self._queue.names.control(record.serverlessRequestID, record.workerName)
        order = Control(order=ControlCommand.CANCEL, invocationID=record.invocationID)
        await self._queue.connection.publish(subject, encode(order))

    async def _drop_message(self, found: StoredRecord) -> None:
        """Delete the queued message: the broker returns its sequence for a repeated message id.

        If the broker has forgotten the id, the copy is deleted, and a worker drops the message.
        """
        stored = await self._acceptance.publish(message_of(found))
        await self._queue.jetstream.delete(self._queue.names.invocations, stored.sequence)


def _unread(record: Record, error: BusError) -> UnknownOutcomeError:
    return UnknownOutcomeError(
        f"invocation {record.invocationID} of function {record.serverlessRequestID}: {error}: "
        "read it later, or send the same request again"
    )


def _listed(batch: Batch, names: Names) -> Iterator[Record]:
    """Yield the records; an expired one leaves an empty message, and a malformed one is logged."""
    for message in batch.messages:
        if message.data:
            try:
                yield record_of(message.subject, message.data, names)
            except (MalformedMessageError, BadNameError) as error:
                log.warning("record skipped", subject=message.subject, reason=str(error))


def missing_invocation(function: str, invocation: str) -> InvocationNotFoundError:
    return InvocationNotFoundError(
        f"invocation {invocation} of function {function} does not exist: it never did, or its "
        "record has expired"
    )
