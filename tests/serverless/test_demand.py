import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.serverless.demand import Demand


def test_the_highest_need_of_the_time_stands() -> None:
    demand = Demand(0, at=0)
    demand.note(3, at=10)
    demand.note(1, at=20)
    assert demand.most(since=5) == 3
    assert demand.most(since=10) == 1


def test_a_need_falls_step_by_step_as_each_was_last_seen() -> None:
    demand = Demand(0, at=0)
    for needed, at in ((5, 1), (3, 2), (1, 3), (0, 4)):
        demand.note(needed, at=at)
    assert [demand.most(since=since) for since in (0, 1, 2, 3, 4, 100)] == [5, 3, 1, 0, 0, 0]


def test_a_need_that_comes_again_lasts_from_then_on() -> None:
    demand = Demand(2, at=0)
    demand.note(0, at=1)
    demand.note(2, at=50)
    demand.note(0, at=51)
    assert demand.most(since=49) == 2


def test_the_current_need_stands_however_long_ago_it_was_noted() -> None:
    demand = Demand(4, at=0)
    assert demand.most(since=1_000) == demand.current == 4
    assert demand.falls_at is None


def test_it_tells_when_the_highest_need_was_last_there() -> None:
    demand = Demand(4, at=7)
    demand.note(1, at=9)
    assert demand.falls_at == 7


@pytest.mark.parametrize("window", [0, 3, 10])
@given(needs=st.lists(st.integers(0, 9), min_size=1, max_size=40))
def test_it_is_the_highest_of_all_that_was_noted_in_time(needs: list[int], window: int) -> None:
    demand = Demand(needs[0], at=0)
    for at, needed in enumerate(needs):
        demand.note(needed, at=at)
        recent = needs[max(0, at - window + 1) : at + 1] if window else [needed]
        assert demand.most(since=at - window) == max(recent)
