from datetime import UTC, datetime, timedelta

import pytest

from gpuruntime.models.kinds.invocations import FailureClass, State
from gpuruntime.serverless.results.expiry import LONGEST_WAIT_SECONDS, Expire, Keep, Wait, due
from tests.rooms.serverless.results.results import NOW, ended

LIVE = [State.QUEUED, State.RUNNING]


@pytest.mark.parametrize("state", [state for state in State if state.is_terminal])
def test_an_ended_record_is_kept_whatever_its_deadline(state: State) -> None:
    record = ended(state=state).record
    assert due(record, now=NOW - timedelta(days=9), grace_seconds=1) == Keep()
    assert due(record, now=NOW + timedelta(days=9), grace_seconds=1) == Keep()


@pytest.mark.parametrize("state", LIVE)
def test_an_open_record_waits_until_its_deadline_and_the_grace_have_passed(state: State) -> None:
    record = ended(state=state, deadlineAt=NOW, completedAt=None).record
    assert due(record, now=NOW - timedelta(seconds=9), grace_seconds=2) == Wait(11)
    assert due(record, now=NOW + timedelta(seconds=1), grace_seconds=2) == Wait(1)
    over = NOW + timedelta(seconds=2)
    decision = due(record, now=over, grace_seconds=2)
    assert isinstance(decision, Expire)
    assert decision.record.state is State.EXPIRED
    assert decision.record.failureClass is FailureClass.EXPIRED
    assert decision.record.completedAt == over


def test_an_expired_record_keeps_the_last_error_of_its_attempts() -> None:
    record = ended(state=State.QUEUED, deadlineAt=NOW, error="attempt 1: bad luck").record
    decision = due(record, now=NOW + timedelta(days=1), grace_seconds=0)
    assert isinstance(decision, Expire)
    assert decision.record.error == "attempt 1: bad luck"


def test_a_far_deadline_is_checked_again_within_a_day() -> None:
    record = ended(state=State.QUEUED, deadlineAt=datetime.max.replace(tzinfo=UTC)).record
    assert due(record, now=NOW, grace_seconds=1) == Wait(LONGEST_WAIT_SECONDS)
