import asyncio
import gc
import itertools
import time
from collections.abc import Iterator
from threading import Lock
from typing import Any

import pytest

from gpuruntime.concurrency.garbage_collection import (
    KEPT_FOR_EACH_FREED,
    LONG_SECONDS,
    RECORD_SECONDS,
    WORTH_FREEZING,
    FrozenSurvivors,
    GarbagePauses,
    paused_collector,
)

MANY = 400_000
LONG, SHORT = LONG_SECONDS * 2, LONG_SECONDS / 2


@pytest.mark.parametrize(
    ("seconds", "generation", "freed", "aside"),
    [
        (LONG, 2, 0, 1),
        (LONG, 2, MANY // KEPT_FOR_EACH_FREED, 1),
        (LONG, 2, MANY // KEPT_FOR_EACH_FREED + 1, 0),
        (SHORT, 2, 0, 0),
        (LONG, 1, 0, 0),
    ],
)
def test_only_survivors_of_a_long_full_collection_that_freed_little_are_frozen(
    seconds: float, generation: int, freed: int, aside: int
) -> None:
    moments = iter((0.0, seconds))
    calls: list[None] = []
    survivors = FrozenSurvivors(
        clock=lambda: next(moments), count=lambda: MANY, freeze=lambda: calls.append(None)
    )
    survivors.notice("start", {"generation": generation, "collected": 0})
    survivors.notice("stop", {"generation": generation, "collected": freed})
    assert len(calls) == aside


@pytest.mark.usefixtures("thawed")
def test_the_collection_after_a_long_one_walks_only_new_objects() -> None:
    kept: list[dict[str, Any]] = [{"n": [number]} for number in range(MANY)]
    with FrozenSurvivors():
        gc.collect()
    assert gc.get_freeze_count() > MANY
    assert len(gc.get_objects()) < MANY
    assert kept


@pytest.mark.usefixtures("thawed")
def test_a_growing_store_makes_no_collection_long() -> None:
    """The walked objects are counted, because the time for them depends on the machine."""
    kept: list[dict[str, Any]] = []
    walked: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            walked.append(len(gc.get_objects()))

    gc.collect()
    gc.freeze()
    gc.collect()  # so that the next full collection comes after few new objects
    with FrozenSurvivors(clock=iter(range(10_000_000)).__next__):
        gc.callbacks.append(note)
        kept += ({"n": [number]} for number in range(MANY))
        gc.callbacks.remove(note)
    assert kept
    assert walked
    assert max(walked) < MANY // 8


def test_the_collector_is_restored_afterwards() -> None:
    callbacks, thresholds = list(gc.callbacks), gc.get_threshold()
    with FrozenSurvivors():
        assert len(gc.callbacks) == len(callbacks) + 1
        assert gc.get_threshold() != thresholds
    assert gc.callbacks == callbacks
    assert gc.get_threshold() == thresholds


@pytest.fixture
def collector() -> Iterator[None]:
    assert gc.isenabled()
    yield
    gc.enable()


@pytest.mark.usefixtures("collector")
def test_the_collector_is_off_until_the_last_of_several_pauses_ends() -> None:
    one, two = paused_collector(), paused_collector()
    one.__enter__()
    two.__enter__()
    one.__exit__(None, None, None)
    assert not gc.isenabled()
    two.__exit__(None, None, None)
    assert gc.isenabled()


@pytest.mark.usefixtures("collector")
def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    with paused_collector():
        pass
    assert not gc.isenabled()


@pytest.mark.usefixtures("collector")
def test_the_collector_is_on_again_after_a_failure() -> None:
    with pytest.raises(ValueError, match="cut"), paused_collector():
        raise ValueError("cut")
    assert gc.isenabled()


@pytest.mark.usefixtures("collector", "thawed")
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


class Recorded:
    """Record pauses, and collect garbage meanwhile if asked to."""

    def __init__(self, *, is_interrupted: bool = False) -> None:
        self.pauses: list[tuple[str, float]] = []
        self._is_interrupted = is_interrupted
        self._lock = Lock()

    def __call__(self, generation: str, seconds: float) -> None:
        assert self._lock.acquire(blocking=False), "this would wait forever"
        try:
            if self._is_interrupted:
                gc.collect()
            self.pauses.append((generation, seconds))
        finally:
            self._lock.release()

    def count(self, generation: str) -> int:
        return [pause[0] for pause in self.pauses].count(generation)


def test_a_collection_is_timed_while_entered_and_not_after() -> None:
    recorded = Recorded()
    with GarbagePauses(recorded, clock=itertools.count(10.0, 0.25).__next__) as pauses:
        gc.collect()
    gc.collect()
    pauses.flush()
    pauses.flush()
    assert recorded.count("2") == 1
    assert ("2", 0.25) in recorded.pauses


def test_a_collection_that_interrupts_a_recording_is_recorded_later() -> None:
    recorded = Recorded(is_interrupted=True)
    with GarbagePauses(recorded, clock=time.monotonic) as pauses:
        recorded("another", 1.0)
        assert recorded.pauses == [("another", 1.0)]
        pauses.flush()
    assert recorded.count("2") == 1


@pytest.mark.looptime
async def test_collections_are_recorded_within_a_second() -> None:
    recorded = Recorded()
    with GarbagePauses(recorded, clock=time.monotonic) as pauses:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(pauses.run())
            gc.collect()
            await asyncio.sleep(RECORD_SECONDS * 1.5)
            task.cancel()
    assert recorded.count("2") == 1
