"""How a call of the framework can end, and what follows for the invocation.

A status code below 500 without an error is an answer for the caller, whatever it means. An error
or a 5xx is retried, like a timeout or a malformed answer. If the framework rejects the call itself
(4xx), it would reject a retry, too: the invocation is dead-lettered at once.
"""

from datetime import datetime, timedelta
from typing import TypeAlias, assert_never

import attrs
import msgspec

from gpuruntime.bus.messages import NULL, Record, expired
from gpuruntime.models.kinds.invocations import FailureClass, FunctionError, State
from gpuruntime.worker.delivery_plan import Limits, exhausted

_SERVER_FAULT = 500


@attrs.frozen(kw_only=True, slots=True)
class Answer:
    """The framework's answer, member by member."""

    statusCode: int = 200
    contentType: str = "application/json"
    headers: dict[str, str] = attrs.field(factory=dict)
    body: msgspec.Raw = NULL
    error: FunctionError | None = None


@attrs.frozen(kw_only=True, slots=True)
class Failure:
    cause: FailureClass
    error: str
    raised: FunctionError | None = None
    is_final: bool = False


@attrs.frozen(slots=True)
class NotCalled:
    """Nothing was sent to the framework, or the worker shuts down: no attempt is used up."""

    reason: str
    pause_seconds: float = 1.0


Outcome: TypeAlias = Answer | Failure | NotCalled


@attrs.frozen(slots=True)
class Ended:
    """Write this record, then ack. A dead letter is written before it."""

    record: Record


@attrs.frozen(slots=True)
class RetryLater:
    """Write this record, then give the message back with this delay."""

    record: Record
    pause_seconds: float


Conclusion: TypeAlias = Ended | RetryLater


def conclude(record: Record, outcome: Outcome, *, now: datetime, limits: Limits) -> Conclusion:
    """Return what follows from the outcome; `record` is the `running` record of this attempt."""
    match outcome:
        case Answer():
            answered = _answered(record, outcome)
            if outcome.error or outcome.statusCode >= _SERVER_FAULT:
                error = words_of(outcome.error) or f"status {outcome.statusCode}"
                failure = Failure(
                    cause=FailureClass.FRAMEWORK_ERROR, error=error, raised=outcome.error
                )
                return _failed(answered, failure, now=now, limits=limits)
            return Ended(attrs.evolve(answered, state=State.SUCCEEDED, completedAt=now))
        case Failure():
            return _failed(record, outcome, now=now, limits=limits)
        case NotCalled():
            return _queued(
                attrs.evolve(record, forgiven=record.forgiven + 1),
                outcome.reason,
                outcome.pause_seconds,
                now=now,
            )
        case _:
            assert_never(outcome)


def words_of(raised: FunctionError | None) -> str:
    """Return the error in a few words, or nothing."""
    return (raised.message or raised.type) if raised else ""


def _failed(record: Record, failure: Failure, *, now: datetime, limits: Limits) -> Conclusion:
    record = attrs.evolve(record, raised=failure.raised)
    if now >= record.deadlineAt:
        return Ended(expired(record, now, error=f"{failure.cause}: {failure.error}"))
    if failure.is_final:
        dead = attrs.evolve(
            record,
            state=State.DEAD_LETTERED,
            failureClass=failure.cause,
            error=failure.error,
            completedAt=now,
        )
        return Ended(dead)
    error = f"attempt {record.attempt}: {failure.cause}: {failure.error}"
    if limits.is_last(record):
        return Ended(exhausted(record, failure.cause, error, now=now, limits=limits))
    return _queued(record, error, limits.pause_seconds(record.attempt), now=now)


def _queued(record: Record, error: str, pause_seconds: float, *, now: datetime) -> Conclusion:
    if now + timedelta(seconds=pause_seconds) >= record.deadlineAt:
        return Ended(expired(record, now, error=f"no time for another attempt: {error}"))
    again = attrs.evolve(
        record,
        state=State.QUEUED,
        sequence=0,
        workerName="",
        error=error,
        startedAt=None,
        statusCode=None,
        contentType="",
        headers={},
        body=NULL,
    )
    return RetryLater(again, pause_seconds)


def _answered(record: Record, answer: Answer) -> Record:
    return attrs.evolve(
        record,
        statusCode=answer.statusCode,
        contentType=answer.contentType,
        headers=answer.headers,
        body=answer.body,
        error="",
        raised=None,
    )
