"""What to do with a delivery, as a pure function of the invocation's record.

The broker's count of deliveries and its acks prove nothing: a consumer that is made again counts
from one and takes old acks. The record alone says whether and as which attempt a delivery starts.
"""

from datetime import datetime
from typing import TypeAlias

import attrs

from gpuruntime.bus.messages import Invocation, Record, expired
from gpuruntime.bus.records import StoredRecord
from gpuruntime.models.kinds.invocations import FailureClass, State


@attrs.frozen(kw_only=True, slots=True)
class Limits:
    """A retry waits a second after the first attempt, and twice as long after each further one."""

    max_attempts: int
    longest_pause_seconds: float = 60.0

    def pause_seconds(self, attempt: int) -> float:
        return min(2.0 ** min(attempt - 1, 16), self.longest_pause_seconds)

    def is_last(self, record: Record) -> bool:
        return record.attempt - record.forgiven >= self.max_attempts


@attrs.frozen(slots=True)
class Start:
    """Call the framework, once this record stands over the one that was seen."""

    record: Record


@attrs.frozen(slots=True)
class End:
    """Nothing more is run: write this record over the one that was seen, then ack."""

    record: Record


@attrs.frozen(slots=True)
class Drop:
    """Somebody else has ended it or will: ack, and that is all."""

    reason: str


@attrs.frozen(slots=True)
class Leave:
    """It was accepted for another unit that declares, or declared, the function: give it back.

    One that is gone may have been another tenant's: what it was sent is for nobody after it.
    """


Decision: TypeAlias = Start | End | Drop | Leave


def assumed_record(invocation: Invocation) -> StoredRecord:
    """What stands there at the first delivery: the record that the message was published for."""
    record = Record(
        invocationID=invocation.invocationID,
        serverlessRequestID=invocation.serverlessRequestID,
        declarer=invocation.declarer,
        tenant=invocation.tenant,
        state=State.QUEUED,
        mode=invocation.mode,
        requestHash=invocation.requestHash,
        series=invocation.series,
        acceptedAt=invocation.acceptedAt,
        deadlineAt=invocation.deadlineAt,
    )
    return StoredRecord(record, invocation.revision)


def decide(
    invocation: Invocation,
    stored: StoredRecord | None,
    *,
    sequence: int,
    worker: str,
    declarer: str,
    now: datetime,
    limits: Limits,
) -> Decision:
    """`sequence` is the message's; a second message for a running invocation is a mere copy.

    `declarer` is the uid of the unit that the worker was made from; empty where it was not told.

    The message that a `running` record names is in the stream until the invocation has ended, so
    that a copy can be dropped: whoever loses the running one leaves that message behind.
    """
    if stored is None:
        return Drop("the record is gone")
    record = stored.record
    if record.series != invocation.series:
        return Drop("another series")
    if record.state.is_terminal:
        return Drop(f"it is {record.state} already")
    if record.state is State.RUNNING and record.sequence != sequence:
        return Drop("a copy of the message that is running")
    if now >= record.deadlineAt:
        return End(expired(record, now))
    if len({record.declarer, declarer} - {""}) > 1:
        return Leave()
    if limits.is_last(record):
        told = "the worker was lost" if record.state is State.RUNNING else record.error
        return End(exhausted(record, FailureClass.WORKER_LOST, told, now=now, limits=limits))
    started = attrs.evolve(
        record,
        state=State.RUNNING,
        attempt=record.attempt + 1,
        sequence=sequence,
        workerName=worker,
        startedAt=now,
    )
    return Start(started)


def exhausted(
    record: Record, cause: FailureClass, error: str, *, now: datetime, limits: Limits
) -> Record:
    """Where there was only one attempt to fail, its own class says more."""
    was_retried = limits.max_attempts > 1
    return attrs.evolve(
        record,
        state=State.DEAD_LETTERED,
        failureClass=FailureClass.RETRY_EXHAUSTED if was_retried else cause,
        error=error,
        completedAt=now,
    )
