"""Reports on a function: its status, and Events when a shortage begins or ends."""

from typing import Any

import attrs
import pytest

from gpuruntime.models.kinds.functions import LONGEST_MESSAGE, Serverless, ServerlessStatus
from gpuruntime.serverless.scaling.status import (
    ENDED,
    differ_in_amounts_only,
    function_note,
    status_of,
    words_for,
)
from gpuruntime.serverless.scaling.worker_plan import (
    Shortage,
    Worker,
    WorkerGroup,
    WorkerPhase,
    plan_workers,
)

SHORTAGES = ("insufficient_capacity", "worker_failed", "worker_lost", "service_unavailable")
LIMITS = Serverless(requestID="echo", maxWorkers=4)
OF_THE_UNIT = ("", "suspended", "no_worker_template", "invalid_spec", "queue_unknown")


def told(before: str | None, after: str) -> tuple[str, bool] | None:
    """Return the Event's reason, and whether it is a warning."""
    old = None if before is None else ServerlessStatus(reason=before, depth=3)
    note = function_note(old, ServerlessStatus(reason=after, depth=9))
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


OLD = Worker(name="echo-w-1", phase=WorkerPhase.READY, is_current=False)
BROKEN = Worker(name="echo-w-2", phase=WorkerPhase.FAILED, fault="image bad:1: no such image")


@pytest.mark.parametrize(
    ("reason", "workers", "words"),
    [
        ("insufficient_capacity", (), "no ready stock of g1.1"),
        (
            "insufficient_capacity",
            (OLD,),
            "no ready stock of g1.1 for the successor of echo-w-1, which stays",
        ),
        (
            "worker_failed",
            (OLD, BROKEN),
            f"worker echo-w-2: {BROKEN.fault}: until one is ready no further stock is claimed",
        ),
        ("worker_lost", (), "a worker has no node that accepts it, or its node is silent"),
        ("forbidden", (), "a claim of stock was refused, or its outcome is not known yet"),
        ("suspended", (), ""),
        ("", (OLD,), ""),
    ],
)
def test_a_reason_has_words_that_change_only_with_it(
    reason: str, workers: tuple[Worker, ...], words: str
) -> None:
    seen = WorkerGroup(limits=LIMITS, workers=workers, needed=12345, free_stock=0)
    assert words_for(reason, seen, spec_name="g1.1") == words


def test_words_fit_into_the_status() -> None:
    seen = WorkerGroup(
        limits=LIMITS,
        workers=(attrs.evolve(BROKEN, fault="x" * 5_000),),
        needed=1,
        free_stock=0,
    )
    assert len(words_for("worker_failed", seen, spec_name="g1.1")) == LONGEST_MESSAGE


def test_an_event_has_the_words_of_the_status() -> None:
    note = function_note(None, ServerlessStatus(reason="worker_failed", message="why"))
    assert note is not None
    assert (note.reason, note.message) == ("WorkerFailed", "why")


def status(*workers: Worker, needed: int, free_stock: int) -> ServerlessStatus:
    seen = WorkerGroup(limits=LIMITS, workers=workers, needed=needed, free_stock=free_stock)
    return status_of(seen, plan_workers(seen), depth=7)


def test_the_status_counts_the_workers_and_reports_the_shortage() -> None:
    one = Worker(name="echo-w-1", phase=WorkerPhase.READY, busy=2)
    other = Worker(name="echo-w-2", phase=WorkerPhase.READY)
    draining = Worker(name="echo-w-3", phase=WorkerPhase.DRAINING, busy=1)
    outdated = attrs.evolve(one, is_current=False)
    assert status(outdated, other, draining, needed=4, free_stock=0) == ServerlessStatus(
        desiredWorkers=4,
        readyWorkers=2,
        outdatedWorkers=1,
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
        ({"message": "other words"}, False),
    ],
    ids=["amounts", "ready workers", "reason", "words"],
)
def test_amounts_of_work_are_told_from_other_changes(
    change: dict[str, Any], is_alike: bool
) -> None:
    before = ServerlessStatus(desiredWorkers=1, depth=3)
    assert differ_in_amounts_only(before, attrs.evolve(before, **change)) is is_alike
