from datetime import timedelta

import attrs
import msgspec
import pytest

from gpuruntime.bus.messages import NULL, Record
from gpuruntime.models.kinds.invocations import FailureClass, FunctionError, State
from gpuruntime.worker.delivery_plan import Limits
from gpuruntime.worker.outcomes import (
    Answer,
    Conclusion,
    Ended,
    Failure,
    NotCalled,
    Outcome,
    RetryLater,
    conclude,
)
from tests.rooms.worker.invocations import NOW, record

RUNNING = record(State.RUNNING, attempt=1, sequence=5, workerName="w", startedAt=NOW)
SILENT = Failure(cause=FailureClass.FRAMEWORK_TIMEOUT, error="no answer within 3 s")


def concluded(outcome: Outcome, running: Record = RUNNING, *, max_attempts: int = 3) -> Conclusion:
    return conclude(running, outcome, now=NOW, limits=Limits(max_attempts=max_attempts))


@pytest.mark.parametrize("status", [200, 204, 302, 404, 422, 499])
def test_an_answer_below_500_belongs_to_the_caller(status: int) -> None:
    answer = Answer(statusCode=status, headers={"X": "y"}, body=msgspec.Raw(b"[1]"))
    conclusion = concluded(answer)
    assert isinstance(conclusion, Ended)
    ended = conclusion.record
    assert (ended.state, ended.statusCode, ended.headers) == (State.SUCCEEDED, status, {"X": "y"})
    assert (bytes(ended.body), ended.completedAt, ended.failureClass) == (b"[1]", NOW, None)


@pytest.mark.parametrize(
    "outcome",
    [
        Answer(statusCode=500),
        Answer(statusCode=200, error=FunctionError(message="no model")),
        SILENT,
        Failure(cause=FailureClass.FRAMEWORK_ERROR, error="connection lost"),
    ],
    ids=["status 500", "error", "timeout", "framework error"],
)
def test_a_failed_attempt_is_queued_with_its_reason_and_without_its_answer(
    outcome: Outcome,
) -> None:
    conclusion = concluded(outcome)
    assert isinstance(conclusion, RetryLater)
    again = conclusion.record
    assert conclusion.pause_seconds == 1
    assert (again.state, again.attempt, again.forgiven) == (State.QUEUED, 1, 0)
    assert again.error.startswith("attempt 1: framework_")
    assert (again.statusCode, again.workerName, again.startedAt) == (None, "", None)
    assert again.body is NULL


def test_the_last_failed_attempt_is_a_dead_letter_that_keeps_its_answer() -> None:
    running = record(State.RUNNING, attempt=3)
    conclusion = concluded(Answer(statusCode=503, body=msgspec.Raw(b'"why"')), running)
    assert isinstance(conclusion, Ended)
    dead = conclusion.record
    assert (dead.state, dead.failureClass) == (State.DEAD_LETTERED, FailureClass.RETRY_EXHAUSTED)
    assert (dead.statusCode, bytes(dead.body)) == (503, b'"why"')
    assert dead.error == "attempt 3: framework_error: status 503"


def test_what_the_function_raised_stays_in_the_record_until_the_next_answer() -> None:
    raised = FunctionError(type="KeyError", message="no name", traceback="Traceback…")
    again = concluded(Answer(statusCode=500, error=raised)).record
    assert again.raised == raised
    assert again.error == "attempt 1: framework_error: no name"
    running = attrs.evolve(again, state=State.RUNNING, attempt=2)
    assert concluded(Answer(), running).record.raised is None
    assert concluded(SILENT, running).record.raised is None


def test_an_error_without_a_message_is_named_by_its_type() -> None:
    failed = concluded(Answer(statusCode=500, error=FunctionError(type="KeyError"))).record
    assert failed.error == "attempt 1: framework_error: KeyError"


def test_the_failure_of_the_only_attempt_has_its_own_class() -> None:
    conclusion = concluded(SILENT, max_attempts=1)
    assert isinstance(conclusion, Ended)
    assert conclusion.record.failureClass is FailureClass.FRAMEWORK_TIMEOUT


def test_a_call_that_the_framework_rejects_is_dead_lettered_at_once() -> None:
    refused = Failure(cause=FailureClass.FRAMEWORK_ERROR, error="answered 400", is_final=True)
    conclusion = concluded(refused)
    assert isinstance(conclusion, Ended)
    dead = conclusion.record
    assert (dead.state, dead.failureClass) == (State.DEAD_LETTERED, FailureClass.FRAMEWORK_ERROR)


def test_a_call_that_was_not_sent_uses_up_no_attempt() -> None:
    conclusion = concluded(NotCalled("nobody listens"), record(State.RUNNING, attempt=3))
    assert isinstance(conclusion, RetryLater)
    assert (conclusion.record.attempt, conclusion.record.forgiven) == (3, 1)
    assert conclusion.pause_seconds == 1


def test_a_failure_at_the_deadline_expires_and_keeps_its_reason() -> None:
    conclusion = concluded(SILENT, record(State.RUNNING, attempt=1, deadlineAt=NOW))
    assert isinstance(conclusion, Ended)
    assert conclusion.record.state is State.EXPIRED
    assert conclusion.record.error == "framework_timeout: no answer within 3 s"


@pytest.mark.parametrize(
    "outcome", [SILENT, NotCalled("unreachable")], ids=["timeout", "not called"]
)
def test_an_invocation_without_time_for_another_attempt_expires_now(outcome: Outcome) -> None:
    short = record(State.RUNNING, attempt=1, deadlineAt=NOW + timedelta(seconds=1))
    conclusion = concluded(outcome, short)
    assert isinstance(conclusion, Ended)
    assert conclusion.record.state is State.EXPIRED
    assert conclusion.record.error.startswith("no time for another attempt")


def test_an_answer_in_time_counts_even_at_the_deadline() -> None:
    conclusion = concluded(Answer(), record(State.RUNNING, attempt=1, deadlineAt=NOW))
    assert conclusion.record.state is State.SUCCEEDED
