from datetime import UTC, datetime, timedelta

import attrs

from gpuruntime.models.kinds.units import Timeline
from gpuruntime.reconcilers.unit.timings import stages_of

BEGIN = datetime(2025, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


WHOLE = Timeline(
    acceptedAt=at(0),
    claimedAt=at(0.5),
    createdAt=at(2),
    scheduledAt=at(3),
    startedAt=at(603),
    readyAt=at(610),
)


def test_each_stage_is_from_the_end_of_the_one_before() -> None:
    assert stages_of(WHOLE) == {
        "claim": 0.5,
        "create": 1.5,
        "schedule": 1,
        "start": 600,
        "ready": 7,
        "total": 610,
    }


def test_a_unit_that_nobody_claimed_is_told_from_its_creation() -> None:
    stages = stages_of(attrs.evolve(WHOLE, acceptedAt=None, claimedAt=None))
    assert stages == {"schedule": 1, "start": 600, "ready": 7, "total": 608}


def test_what_is_not_known_counts_to_the_next_stage() -> None:
    stages = stages_of(attrs.evolve(WHOLE, scheduledAt=None, startedAt=None))
    assert stages == {"claim": 0.5, "create": 1.5, "ready": 608, "total": 610}


def test_clocks_that_differ_make_no_time_below_nothing() -> None:
    assert stages_of(attrs.evolve(WHOLE, createdAt=at(0)))["create"] == 0


def test_a_timeline_without_a_moment_has_no_stage() -> None:
    assert stages_of(Timeline()) == {}
