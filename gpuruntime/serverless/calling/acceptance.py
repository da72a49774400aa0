"""Accepts an invocation: writes the `queued` record, then its message, then answers.

Contract: an accepted invocation has its record, and its message is or was in the queue. If the
queue has no room, nothing of the invocation is left. Once the record is written, an unclear
outcome raises UnknownOutcomeError, and the caller can repeat the same request.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from random import Random
from typing import Final

import attrs
import msgspec
import structlog

from gpuruntime.bus.errors import (
    BusError,
    FullError,
    MissingError,
    OutcomeUnknownError,
    TooLargeError,
    UnavailableError,
)
from gpuruntime.bus.jetstream import PUBLISH_SECONDS, Stored
from gpuruntime.bus.messages import Invocation, Record, encode
from gpuruntime.bus.records import ConflictError, StoredRecord
from gpuruntime.concurrency.clock import loop_time
from gpuruntime.meter import Meter, NullMeter
from gpuruntime.models.kinds.invocations import State
from gpuruntime.models.requests.invocations import Invoke
from gpuruntime.operations.hashing import request_hash
from gpuruntime.serverless.broker import BrokerLink
from gpuruntime.serverless.calling.functions import Declared, Functions
from gpuruntime.serverless.calling.requests import MOST_PAYLOAD_BYTES, payload_of
from gpuruntime.serverless.calling.wakeups import Wakeups
from gpuruntime.serverless.errors import (
    InvocationConflictError,
    PayloadTooLargeError,
    QueueAwayError,
    QueueFullError,
    ServerlessError,
    UnknownOutcomeError,
    bus_translated,
)

log = structlog.get_logger()

ID_BYTES: Final = 16
# If other invocations with the id come and go this often, something is wrong.
LOOKS: Final = 5
# While a record is younger than this, its writer may still take it back.
MAY_BE_TAKEN_BACK_SECONDS: Final = 30.0


@attrs.frozen(kw_only=True, slots=True)
class Accepted:
    """`sequence` is the sequence of the message in its stream, or 0 if it was not needed."""

    record: Record
    sequence: int
    is_duplicate: bool


class Acceptance:
    def __init__(
        self,
        queue: BrokerLink,
        functions: Functions,
        wakes: Wakeups,
        *,
        now: Callable[[], datetime],
        rng: Random,
        send_seconds: float = PUBLISH_SECONDS,
        meter: Meter = NullMeter(),
    ) -> None:
        self._queue = queue
        self._functions = functions
        self._wakes = wakes
        self._now = now
        self._rng = rng
        self._send_seconds = send_seconds
        self._meter = meter

    def named(self, request: Invoke) -> Invoke:
        """Return the request with an id, a new one if the caller gave none."""
        if request.invocationID:
            return request
        return attrs.evolve(request, invocationID=self._rng.randbytes(ID_BYTES).hex())

    async def accept(self, request: Invoke) -> Accepted:
        """Accept a request that has an id; for a duplicate, return its current record.

        This takes at most the invocation's lifetime: after that its answer is useless.
        """
        outcome = "failed"
        try:
            with bus_translated():
                accepted = await self._accept(request)
            outcome = "duplicate" if accepted.is_duplicate else "accepted"
            return accepted
        except ServerlessError as error:
            outcome = error.code
            raise
        finally:
            self._meter.count(
                "serverless_invocations_total", mode=request.mode.value, outcome=outcome
            )

    async def send(self, invocation: Invocation) -> Stored:
        """Queue the message of an existing record and wake the activator, or raise BusError."""
        stored = await self.publish(invocation)
        self._wakes.wake(invocation.serverlessRequestID)
        return stored

    async def publish(self, invocation: Invocation) -> Stored:
        """Queue the message without waking the activator."""
        left = invocation.deadlineAt - self._now()
        return await self._queue.jetstream.publish(
            self._queue.names.invoke(invocation.serverlessRequestID),
            encode(invocation),
            message_id=message_id_of(invocation),
            ttl_seconds=left.total_seconds(),
            within_seconds=self._send_seconds,
        )

    async def _accept(self, request: Invoke) -> Accepted:
        self._queue.demand()
        payload = _bounded_payload(request)
        arrived_at = loop_time()
        try:
            async with asyncio.timeout(request.lifeSeconds):
                declared = await self._functions.find(request.serverlessRequestID)
                record = queued_record(request, declared, now=self._now())
                return await self._accept_record(request, payload, record)
        except TimeoutError as error:
            seconds = loop_time() - arrived_at
            raise _unknown(request, f"no answer from the queue within {seconds:.0f} s") from error

    async def _accept_record(
        self, request: Invoke, payload: msgspec.Raw, record: Record
    ) -> Accepted:
        for _ in range(LOOKS):
            try:
                queued = await self._queue.records.write(record, expected=0)
            except ConflictError as conflict:
                found = conflict.current
            except FullError as error:
                raise _full(request) from error
            except OutcomeUnknownError as error:
                raise _unknown(request, error) from error
            else:
                return await self._send_first(request, payload, queued)
            if found and (accepted := await self._replay(request, payload, record, found)):
                return accepted
        raise QueueAwayError(f"invocation {request.invocationID} changes too often: send it again")

    async def _send_first(
        self, request: Invoke, payload: msgspec.Raw, queued: StoredRecord
    ) -> Accepted:
        try:
            stored = await self.send(invocation_of(queued, request, payload))
        except (UnavailableError, OutcomeUnknownError) as error:
            raise _unknown(request, error) from error
        except FullError as error:
            await self._take_back(queued)
            raise _full(request) from error
        except TooLargeError as error:
            await self._take_back(queued)
            raise PayloadTooLargeError(
                f"{error}: send less, or have the broker's max_payload raised"
            ) from error
        except BusError:
            await self._take_back(queued)
            raise
        return Accepted(record=queued.record, sequence=stored.sequence, is_duplicate=False)

    async def _replay(
        self, request: Invoke, payload: msgspec.Raw, wanted: Record, found: StoredRecord
    ) -> Accepted | None:
        """Return the state of the earlier request's invocation, or None if it was taken back."""
        record = found.record
        if record.requestHash != wanted.requestHash:
            raise InvocationConflictError(
                f"invocation {record.invocationID} of function {record.serverlessRequestID} is "
                "in use by another request: choose another invocationID"
            )
        # The message of a started invocation is still queued. A second one would count its
        # attempts from the beginning: a worker identifies the record by the revision alone.
        is_unsent = record.state is State.QUEUED and not record.attempt
        if not is_unsent or self._now() >= record.deadlineAt:
            return Accepted(record=record, sequence=record.sequence, is_duplicate=True)
        try:
            stored = await self.send(invocation_of(found, request, payload))
            is_known = stored.is_duplicate or await self._is_kept(found)
        except FullError as error:
            raise _full(request) from error
        except (UnavailableError, OutcomeUnknownError) as error:
            raise _unknown(request, error) from error
        if not is_known:
            return None
        return Accepted(record=record, sequence=stored.sequence, is_duplicate=True)

    async def _is_kept(self, found: StoredRecord) -> bool:
        """Keep a record from being taken back, because its first message was never stored.

        Its writer takes it back at the revision of its own write. A new write prevents that.
        """
        age = self._now() - found.record.acceptedAt
        if age > timedelta(seconds=MAY_BE_TAKEN_BACK_SECONDS):
            return True
        try:
            await self._queue.records.write(found.record, expected=found.revision)
        except ConflictError as conflict:
            return conflict.current is not None
        return True

    async def _take_back(self, queued: StoredRecord) -> None:
        """Delete the record. If that fails, it expires at its deadline, and a replay sends it."""
        try:
            await self._queue.records.delete(queued)
        except MissingError:
            return
        except BusError as error:
            log.warning(
                "record left behind", invocation=queued.record.invocationID, reason=str(error)
            )


def queued_record(request: Invoke, declared: Declared, *, now: datetime) -> Record:
    return Record(
        invocationID=request.invocationID,
        serverlessRequestID=request.serverlessRequestID,
        declarer=declared.uid,
        tenant=declared.tenant,
        state=State.QUEUED,
        mode=request.mode,
        requestHash=request_hash(request),
        acceptedAt=now,
        deadlineAt=now + timedelta(seconds=request.lifeSeconds),
    )


def message_of(stored: StoredRecord) -> Invocation:
    """Return the message as far as the record determines it: all but the function's input."""
    record = stored.record
    return Invocation(
        invocationID=record.invocationID,
        serverlessRequestID=record.serverlessRequestID,
        declarer=record.declarer,
        tenant=record.tenant,
        mode=record.mode,
        requestHash=record.requestHash,
        series=record.series,
        revision=stored.revision,
        acceptedAt=record.acceptedAt,
        deadlineAt=record.deadlineAt,
    )


def invocation_of(stored: StoredRecord, request: Invoke, payload: msgspec.Raw) -> Invocation:
    return attrs.evolve(
        message_of(stored),
        contentType=request.contentType,
        headers=request.headers,
        attributes=request.attributes,
        payload=payload,
        timeoutSeconds=request.timeoutSeconds or 0,
    )


def message_id_of(invocation: Invocation) -> str:
    function, name = invocation.serverlessRequestID, invocation.invocationID
    return f"{function}:{name}:{invocation.revision}"


def _bounded_payload(request: Invoke) -> msgspec.Raw:
    """Return the payload within the limit; numbers may be longer here than in the body."""
    payload = payload_of(request)
    size = len(bytes(payload))
    if size > MOST_PAYLOAD_BYTES:
        raise PayloadTooLargeError(
            f"the payload has {size} bytes as JSON: send at most {MOST_PAYLOAD_BYTES}"
        )
    return payload


def _full(request: Invoke) -> QueueFullError:
    return QueueFullError(
        f"the queue of function {request.serverlessRequestID} is full: send the invocation later"
    )


def _unknown(request: Invoke, error: BusError | str) -> UnknownOutcomeError:
    return UnknownOutcomeError(
        f"invocation {request.invocationID}: it may be queued or not: send it again "
        f"under this invocationID: {error}"
    )
