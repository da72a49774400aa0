import gc
from collections.abc import Iterator

import pytest

from gpuruntime.concurrency.gc_pause import WORTH_FREEZING, paused_collector


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    assert gc.isenabled()
    yield
    gc.unfreeze()
    gc.enable()


def test_the_collector_is_off_until_the_last_of_several_pauses_ends() -> None:
    one, two = paused_collector(), paused_collector()
    one.__enter__()
    two.__enter__()
    one.__exit__(None, None, None)
    assert not gc.isenabled()
    two.__exit__(None, None, None)
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    with paused_collector():
        pass
    assert not gc.isenabled()


def test_the_collector_is_on_again_after_a_failure() -> None:
    with pytest.raises(ValueError, match="cut"), paused_collector():
        raise ValueError("cut")
    assert gc.isenabled()


def test_only_a_pause_that_brought_many_objects_freezes_them() -> None:
    gc.collect()
    frozen = gc.get_freeze_count()
    with paused_collector():
        few = [[number] for number in range(100)]
    assert gc.get_freeze_count() == frozen
    with paused_collector():
        many = [[number] for number in range(2 * WORTH_FREEZING)]
    assert gc.get_freeze_count() > frozen + WORTH_FREEZING
    assert len(few) < len(many)
