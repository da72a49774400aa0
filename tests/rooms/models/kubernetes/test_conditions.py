from datetime import UTC, datetime, timedelta

from gpuruntime.models.kubernetes.conditions import Condition, condition_of, with_condition

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


def ready(status: str, reason: str = "A") -> Condition:
    return Condition(type="Ready", status=status, reason=reason)


def test_a_new_condition_has_the_current_time() -> None:
    (condition,) = with_condition((), ready("True"), now=NOW)
    assert condition.lastTransitionTime == NOW
    assert condition.is_true


def test_the_transition_time_moves_with_the_status_only() -> None:
    before = with_condition((), ready("False", "A"), now=NOW)
    same = with_condition(before, ready("False", "B"), now=LATER)
    assert same[0].reason == "B"
    assert same[0].lastTransitionTime == NOW
    assert with_condition(same, ready("True"), now=LATER)[0].lastTransitionTime == LATER


def test_setting_the_same_condition_again_changes_nothing() -> None:
    before = with_condition((), ready("True"), now=NOW)
    assert with_condition(before, ready("True"), now=LATER) == before


def test_the_other_conditions_keep_their_places() -> None:
    other = Condition(type="Other", status="True", lastTransitionTime=NOW)
    before = (*with_condition((), ready("True"), now=NOW), other)
    after = with_condition(before, ready("False"), now=LATER)
    assert [each.type for each in after] == ["Ready", "Other"]
    assert condition_of(after, "Other") == other
