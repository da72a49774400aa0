"""How long units are known to be idle, after rounds of readings."""

import attrs
import pytest

from gpuruntime.models.kinds.activity import ActivityReport, UnitActivity
from gpuruntime.reconcilers.activity.status import Activity, Reading, Round, after_round

UNIT = "uid-1"
REPLICA = Reading(
    pod_uid="pod-1",
    report=ActivityReport(
        boot="boot-1", since=900.0, now=1000.0, units={UNIT: UnitActivity(last=940.0)}
    ),
    read_at=100.2,
)
OTHER = attrs.evolve(
    REPLICA, pod_uid="pod-2", report=ActivityReport(boot="boot-2", since=1.0, now=1000.0)
)
RESTARTED = attrs.evolve(REPLICA, report=attrs.evolve(REPLICA.report, boot="boot-3"))
EMPTIED = attrs.evolve(REPLICA, report=attrs.evolve(REPLICA.report, since=950.0))
# What a leader knows that has read both replicas since long ago.
KNOWN = Activity(
    known_until=70.0,
    gap_ended_at=-500.0,
    processes=frozenset({REPLICA.process, OTHER.process}),
    last_active={UNIT: 10.0},
)


def read(*readings: Reading, fault: str = "") -> Round:
    return Round(began_at=100.0, ended_at=101.0, readings=readings, fault=fault)


ROUNDS = [
    pytest.param(KNOWN, read(REPLICA, OTHER), 59.8, 600.0, id="all replicas as before"),
    pytest.param(None, read(REPLICA, OTHER), 0.0, 0.0, id="the first round of a leader"),
    pytest.param(KNOWN, read(REPLICA, fault="silent"), 0.0, 0.0, id="a replica is not read"),
    pytest.param(KNOWN, read(fault="refused"), 0.0, 0.0, id="the replicas are not listed"),
    pytest.param(KNOWN, read(REPLICA), 0.0, 0.0, id="a replica is gone"),
    pytest.param(KNOWN, read(RESTARTED, OTHER), 0.0, 0.0, id="another process in the Pod"),
    pytest.param(KNOWN, read(EMPTIED, OTHER), 0.0, 0.0, id="a process that lost its records"),
    pytest.param(
        KNOWN,
        read(REPLICA, OTHER, attrs.evolve(OTHER, pod_uid="pod-3")),
        *(0.0, 0.0),
        id="a new replica",
    ),
    pytest.param(
        attrs.evolve(KNOWN, processes=frozenset()), read(), 0.0, 0.0, id="no replica at all"
    ),
]


@pytest.mark.parametrize(("before", "done", "idle", "untouched"), ROUNDS)
def test_a_gap_counts_as_activity_of_all_units(
    before: Activity | None, done: Round, idle: float, untouched: float
) -> None:
    after = after_round(before, done, {UNIT, "uid-2"})
    assert after.idle_seconds(UNIT) == pytest.approx(idle)
    assert after.idle_seconds("uid-2") == pytest.approx(untouched)
    assert after.known_until == done.began_at


def test_the_round_after_a_fault_is_a_gap_even_if_the_silent_replica_is_gone() -> None:
    without = attrs.evolve(KNOWN, processes=frozenset({REPLICA.process}))
    silent = after_round(without, read(REPLICA, fault="silent"), {UNIT})
    gone = after_round(silent, attrs.evolve(read(REPLICA), ended_at=131.0), {UNIT})
    assert gone.gap_ended_at == 131.0


def test_the_latest_activity_of_all_replicas_and_rounds_counts() -> None:
    late = attrs.evolve(
        OTHER, report=attrs.evolve(OTHER.report, units={UNIT: UnitActivity(last=990.0)})
    )
    after = after_round(KNOWN, read(REPLICA, late), {UNIT})
    assert after.idle_seconds(UNIT) == pytest.approx(9.8)
    silent = attrs.evolve(REPLICA, report=attrs.evolve(REPLICA.report, units={}))
    again = after_round(after, attrs.evolve(read(silent, OTHER), began_at=130.0), {UNIT})
    assert again.idle_seconds(UNIT) == pytest.approx(39.8)


def test_a_time_after_the_replicas_own_now_is_no_time_to_come() -> None:
    ahead = attrs.evolve(
        REPLICA, report=attrs.evolve(REPLICA.report, units={UNIT: UnitActivity(last=2000.0)})
    )
    assert ahead.last_active() == {UNIT: ahead.read_at}


def test_units_that_are_gone_are_forgotten() -> None:
    assert after_round(KNOWN, read(REPLICA, OTHER), set()).last_active == {}
