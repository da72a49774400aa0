"""Reports on a function: its status, and Events when a shortage begins or ends."""

from typing import Any

import attrs
import pytest

from gpuruntime.models.kinds.functions import Serverless, ServerlessStatus
from gpuruntime.serverless.scaling.status import (
    ENDED,
    differ_in_amounts_only,
    function_note,
    status_of,
)
from gpuruntime.serverless.scaling.worker_plan import (
    Shortage,
    Worker,
    WorkerGroup,
    WorkerPhase,
    plan_workers,
)

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


def status(*workers: Worker, needed: int, free_stock: int) -> ServerlessStatus:
    limits = Serverless(requestID="echo", maxWorkers=4)
    seen = WorkerGroup(limits=limits, workers=workers, needed=needed, free_stock=free_stock)
    return status_of(seen, plan_workers(seen), depth=7)


def test_the_status_counts_the_workers_and_reports_the_shortage() -> None:
    one = Worker(name="echo-w-1", phase=WorkerPhase.READY, busy=2)
    other = Worker(name="echo-w-2", phase=WorkerPhase.READY)
    draining = Worker(name="echo-w-3", phase=WorkerPhase.DRAINING, busy=1)
    assert status(one, other, draining, needed=4, free_stock=0) == ServerlessStatus(
        desiredWorkers=4,
        readyWorkers=2,
        busyWorkers=2,
        drainingWorkers=1,
        depth=7,
        reason="insufficient_capacity",
    )
    assert status(one, needed=1, free_stock=0).reason == ""


@pytest.mark.parametrize(
    ("change", "is_alike"),
    [
        ({"busyWorkers": 9, "depth": 9, "oldestWaitSeconds": 9}, True),
        ({"readyWorkers": 9}, False),
        ({"reason": "worker_lost"}, False),
    ],
    ids=["amounts", "ready workers", "reason"],
)
def test_amounts_of_work_are_told_from_other_changes(
    change: dict[str, Any], is_alike: bool
) -> None:
    before = ServerlessStatus(desiredWorkers=1, depth=3)
    assert differ_in_amounts_only(before, attrs.evolve(before, **change)) is is_alike
