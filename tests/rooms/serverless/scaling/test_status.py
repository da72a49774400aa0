"""Events of a function: the beginning of a shortage, and its end."""

import pytest

from gpuruntime.models.kinds.functions import ServerlessStatus
from gpuruntime.serverless.scaling.plan import Shortage
from gpuruntime.serverless.scaling.status import ENDED, function_note

SHORTAGES = ("insufficient_capacity", "worker_failed", "worker_lost", "service_unavailable")
OF_THE_UNIT = ("", "suspended", "no_worker_template", "invalid_spec", "queue_unknown")


def told(before: str | None, after: str) -> tuple[str, bool] | None:
    """Return the Event's reason, and whether it is a warning."""
    old = None if before is None else ServerlessStatus(reason=before, depth=3)
    note = function_note(old, ServerlessStatus(reason=after, depth=9), spec_name="g1.1")
    return (note.reason, note.is_warning) if note else None


@pytest.mark.parametrize(
    ("shortage", "reason"),
    [
        ("insufficient_capacity", "InsufficientCapacity"),
        ("worker_failed", "WorkerFailed"),
        ("worker_lost", "WorkerLost"),
        ("service_unavailable", "ClaimFailed"),
    ],
)
@pytest.mark.parametrize("before", [None, *OF_THE_UNIT])
def test_the_beginning_of_a_shortage_is_reported(
    before: str | None, shortage: str, reason: str
) -> None:
    assert told(before, shortage) == (reason, True)
    assert told(shortage, shortage) is None


@pytest.mark.parametrize("shortage", SHORTAGES)
def test_the_end_of_a_shortage_is_reported_once(shortage: str) -> None:
    assert told(shortage, "") == (ENDED.reason, False)
    assert told("", "") is None
    assert told(None, "") is None


@pytest.mark.parametrize("before", [None, *SHORTAGES, *OF_THE_UNIT])
@pytest.mark.parametrize("after", OF_THE_UNIT[1:])
def test_reasons_that_the_manager_reports_cause_no_event(before: str | None, after: str) -> None:
    assert told(before, after) is None


def test_every_shortage_is_reported_by_one_component() -> None:
    assert {each.value for each in Shortage} <= {*SHORTAGES, *OF_THE_UNIT}


def test_a_lack_of_stock_names_the_spec_and_no_changing_number() -> None:
    note = function_note(
        None, ServerlessStatus(reason="insufficient_capacity", depth=12345), spec_name="g1.1"
    )
    assert note is not None
    assert "g1.1" in note.message
    assert "12345" not in note.message
