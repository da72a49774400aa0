import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.serverless.scaling.history import Demand, FunctionHistory
from gpuruntime.serverless.scaling.worker_plan import Worker, WorkerPhase

READY = (Worker(name="echo-w-1", phase=WorkerPhase.READY),)
LOST = (Worker(name="echo-w-1", phase=WorkerPhase.ADRIFT),)


@pytest.mark.parametrize(("lost_again_at", "seconds"), [(14.0, 20.0), (15.0, 10.0)])
def test_the_back_off_is_reset_after_readiness_for_as_long_as_it_lasts(
    lost_again_at: float, seconds: float
) -> None:
    memory = FunctionHistory.of("t", 1, 0.0)
    memory.note_replacement(0.0)
    memory.started(READY, 5.0)
    memory.started(READY, 6.0)
    memory.started(LOST, lost_again_at)
    memory.note_replacement(140.0)
    assert memory.replacement_in_seconds(140.0) == seconds


def test_the_highest_need_of_the_period_counts() -> None:
    demand = Demand(0, at=0)
    demand.note(3, at=10)
    demand.note(1, at=20)
    assert demand.most(29, within=20) == 3
    assert demand.most(30, within=20) == 1


def test_a_need_falls_in_steps_as_each_was_last_noted() -> None:
    demand = Demand(0, at=0)
    for needed, at in ((5, 1), (3, 2), (1, 3), (0, 4)):
        demand.note(needed, at=at)
    found = [demand.most(at, within=10) for at in (10, 11, 12, 13, 14, 100)]
    assert found == [5, 3, 1, 0, 0, 0]


def test_a_repeated_need_lasts_from_its_last_note() -> None:
    demand = Demand(2, at=0)
    demand.note(0, at=1)
    demand.note(2, at=50)
    demand.note(0, at=51)
    assert demand.most(60, within=11) == 2


def test_the_current_need_counts_however_old_it_is() -> None:
    demand = Demand(4, at=0)
    assert demand.most(1_000, within=1) == demand.current == 4
    assert demand.falls_in(1_000, within=1) is None


def test_the_need_falls_at_the_predicted_moment() -> None:
    demand = Demand(4, at=7.1)
    demand.note(1, at=9.0)
    left = demand.falls_in(9.3, within=0.7)
    assert left is not None
    assert demand.most(9.3 + left, within=0.7) == 1


@given(
    seen=st.floats(0, 1e6),
    later=st.floats(0, 1e4),
    passed=st.floats(0, 1e6),
    within=st.floats(0, 1e4),
)
def test_a_need_that_still_counts_has_a_positive_time_left(
    seen: float, later: float, passed: float, within: float
) -> None:
    """Otherwise a reconcile at that moment would schedule itself again for the same moment."""
    demand = Demand(4, at=seen)
    demand.note(1, at=seen + later)
    at = seen + later + passed
    if demand.most(at, within=within) == 4:
        left = demand.falls_in(at, within=within)
        assert left is not None
        assert left > 0


@pytest.mark.parametrize("window", [0, 3, 10])
@given(needs=st.lists(st.integers(0, 9), min_size=1, max_size=40))
def test_the_result_is_the_highest_need_noted_in_the_period(needs: list[int], window: int) -> None:
    demand = Demand(needs[0], at=0)
    for at, needed in enumerate(needs):
        demand.note(needed, at=at)
        recent = needs[max(0, at - window + 1) : at + 1] if window else [needed]
        assert demand.most(at, within=window) == max(recent)
