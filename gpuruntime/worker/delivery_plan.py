"""Decide what to do with a delivery, as a pure function of the invocation's record.

The broker's delivery count and its acks prove nothing: a recreated consumer counts from one and
accepts old acks. The record alone decides whether a delivery starts, and as which attempt.
"""

from datetime import datetime
from typing import TypeAlias

import attrs

from gpuruntime.bus.messages import Invocation, Record, expired
from gpuruntime.bus.records import StoredRecord
from gpuruntime.models.kinds.invocations import FailureClass, State


@attrs.frozen(kw_only=True, slots=True)
class Limits:
    """A retry waits one second after the first attempt, then twice as long each time."""

    max_attempts: int
    longest_pause_seconds: float = 60.0

    def pause_seconds(self, attempt: int) -> float:
        return min(2.0 ** min(attempt - 1, 16), self.longest_pause_seconds)

    def is_last(self, record: Record) -> bool:
        return record.attempt - record.forgiven >= self.max_attempts


@attrs.frozen(slots=True)
class Start:
    """Write this record over the one that was read, then call the framework."""

    record: Record


@attrs.frozen(slots=True)
class End:
    """Nothing more runs: write this record over the one that was read, then ack."""

    record: Record


@attrs.frozen(slots=True)
class Drop:
    """Another worker has ended the invocation or will: only ack."""

    reason: str


@attrs.frozen(slots=True)
class Leave:
    """The invocation was accepted for another unit that declares or declared the function.

    Give it back. A deleted unit may have been another tenant's, so no later unit may run its
    invocations.
    """


Decision: TypeAlias = Start | End | Drop | Leave


def assumed_record(invocation: Invocation) -> StoredRecord:
    """Return the record expected at the first delivery: the one the message was published for."""
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
    """Return what to do with a delivered message, given the record of its invocation.

    `sequence` is the sequence of the message; a second message for a running invocation is a copy.
    `declarer` is the uid of the unit that the worker was created from, or empty if unknown.

    The message that a `running` record names stays in the stream until the invocation has ended.
    So a copy can be dropped: if the running worker is lost, that message remains.
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
    """Return the dead-lettered record. If only one attempt was allowed, it keeps the cause's
    class.
    """
    was_retried = limits.max_attempts > 1
    return attrs.evolve(
        record,
        state=State.DEAD_LETTERED,
        failureClass=FailureClass.RETRY_EXHAUSTED if was_retried else cause,
        error=error,
        completedAt=now,
    )
