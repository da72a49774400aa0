from datetime import datetime, timedelta

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.bus.records import StoredRecord
from gpuruntime.models.kinds.invocations import FailureClass, State
from gpuruntime.worker.delivery_plan import (
    Decision,
    Drop,
    End,
    Leave,
    Limits,
    Start,
    assumed_record,
    decide,
)
from tests.rooms.worker.invocations import LATER, NOW, invocation, record, stored

SEQUENCE = 21
LIMITS = Limits(max_attempts=3)
TERMINAL = [state for state in State if state.is_terminal]


def decided(
    there: StoredRecord | None,
    *,
    sequence: int = SEQUENCE,
    declarer: str = "",
    limits: Limits = LIMITS,
    now: datetime = NOW,
) -> Decision:
    return decide(
        invocation(),
        there,
        sequence=sequence,
        worker="w",
        declarer=declarer,
        now=now,
        limits=limits,
    )


def test_the_first_delivery_starts_the_first_attempt_over_the_record_it_was_published_for() -> (
    None
):
    assumed = assumed_record(invocation())
    decision = decided(assumed)
    assert assumed.revision == 7
    assert isinstance(decision, Start)
    assert decision.record.state is State.RUNNING
    assert (decision.record.attempt, decision.record.sequence) == (1, SEQUENCE)
    assert (decision.record.workerName, decision.record.startedAt) == ("w", NOW)
    assert decision.record.requestHash == "abc"


@pytest.mark.parametrize(
    "there",
    [stored(), stored(State.RUNNING, attempt=1, sequence=SEQUENCE)],
    ids=["queued", "running"],
)
def test_an_invocation_for_another_declarer_is_left(there: StoredRecord) -> None:
    theirs = attrs.evolve(there, record=attrs.evolve(there.record, declarer="a"))
    assert isinstance(decided(theirs, declarer="b"), Leave)
    assert isinstance(decided(theirs, declarer="a"), Start)
    assert isinstance(decided(theirs, declarer="b", now=LATER), End)


@pytest.mark.parametrize(("theirs", "ours"), [("", "b"), ("a", ""), ("", "")])
def test_a_worker_or_a_message_without_a_declarer_matches_any(theirs: str, ours: str) -> None:
    assert isinstance(decided(stored(declarer=theirs), declarer=ours), Start)


def test_without_a_record_nothing_is_started() -> None:
    assert isinstance(decided(None), Drop)


@pytest.mark.parametrize("state", TERMINAL)
def test_an_ended_invocation_is_never_started_again(state: State) -> None:
    assert isinstance(decided(stored(state)), Drop)


@pytest.mark.parametrize("series", [2, 3])
def test_a_message_from_before_a_redrive_is_dropped(series: int) -> None:
    assert isinstance(decided(stored(series=series)), Drop)


def test_a_message_of_a_lost_worker_starts_the_next_attempt() -> None:
    decision = decided(stored(State.RUNNING, 9, attempt=1, sequence=SEQUENCE, workerName="lost"))
    assert isinstance(decision, Start)
    assert (decision.record.attempt, decision.record.workerName) == (2, "w")


def test_a_copy_of_the_running_message_is_dropped() -> None:
    assert isinstance(decided(stored(State.RUNNING, attempt=1, sequence=SEQUENCE - 1)), Drop)


def test_a_message_that_was_given_back_starts_the_next_attempt() -> None:
    decision = decided(stored(State.QUEUED, 9, attempt=2))
    assert isinstance(decision, Start)
    assert decision.record.attempt == 3


def test_the_loss_of_the_last_attempts_worker_makes_a_dead_letter() -> None:
    decision = decided(stored(State.RUNNING, attempt=3, sequence=SEQUENCE))
    assert isinstance(decision, End)
    assert decision.record.state is State.DEAD_LETTERED
    assert decision.record.failureClass is FailureClass.RETRY_EXHAUSTED
    assert "worker was lost" in decision.record.error


def test_the_loss_of_the_only_attempt_has_its_own_class() -> None:
    there = stored(State.RUNNING, attempt=1, sequence=SEQUENCE)
    decision = decided(there, limits=Limits(max_attempts=1))
    assert isinstance(decision, End)
    assert decision.record.failureClass is FailureClass.WORKER_LOST


def test_forgiven_attempts_do_not_count() -> None:
    decision = decided(stored(State.QUEUED, attempt=5, forgiven=3))
    assert isinstance(decision, Start)
    assert decision.record.attempt == 6


@pytest.mark.parametrize("state", [State.QUEUED, State.RUNNING])
def test_an_overdue_invocation_ends_as_expired(state: State) -> None:
    there = stored(state, sequence=SEQUENCE, deadlineAt=NOW)
    decision = decided(there)
    assert isinstance(decision, End)
    assert decision.record.state is State.EXPIRED
    assert decision.record.failureClass is FailureClass.EXPIRED
    assert decision.record.completedAt == NOW


def test_pauses_grow_up_to_a_limit() -> None:
    pauses = [LIMITS.pause_seconds(attempt) for attempt in (1, 2, 3, 7, 100)]
    assert pauses == [1, 2, 4, 60, 60]


@given(
    state=st.sampled_from(State),
    attempt=st.integers(0, 5),
    forgiven=st.integers(0, 5),
    sequence=st.sampled_from([0, SEQUENCE, SEQUENCE + 1]),
    series=st.integers(1, 2),
    left=st.integers(-1, 1),
)
def test_a_start_is_always_a_higher_attempt_of_an_open_invocation(
    state: State, attempt: int, forgiven: int, sequence: int, series: int, left: int
) -> None:
    there = StoredRecord(
        record(
            state,
            attempt=attempt,
            forgiven=min(forgiven, attempt),
            sequence=sequence,
            series=series,
            deadlineAt=NOW + timedelta(seconds=left),
        ),
        9,
    )
    decision = decided(there)
    if isinstance(decision, Start):
        assert decision.record.attempt == attempt + 1
        assert not state.is_terminal
        assert series == 1
        assert decision.record.deadlineAt > NOW
        assert decision.record.deadlineAt < LATER
    if isinstance(decision, End):
        assert decision.record.state.is_terminal
        assert decision.record.failureClass is not None
