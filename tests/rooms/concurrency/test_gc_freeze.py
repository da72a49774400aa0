import gc
from collections.abc import Iterator
from typing import Any

import pytest

from gpuruntime.concurrency.gc_freeze import KEPT_FOR_EACH_FREED, LONG_SECONDS, Survivors

MANY = 400_000
LONG, SHORT = LONG_SECONDS * 2, LONG_SECONDS / 2


@pytest.fixture
def thawed() -> Iterator[None]:
    """The suite's own objects are not for this test to freeze."""
    gc.collect()
    yield
    gc.unfreeze()


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
def test_only_what_survives_a_long_full_collection_that_freed_little_is_set_aside(
    seconds: float, generation: int, freed: int, aside: int
) -> None:
    moments = iter((0.0, seconds))
    calls: list[None] = []
    survivors = Survivors(
        clock=lambda: next(moments), count=lambda: MANY, set_aside=lambda: calls.append(None)
    )
    survivors.notice("start", {"generation": generation, "collected": 0})
    survivors.notice("stop", {"generation": generation, "collected": freed})
    assert len(calls) == aside


@pytest.mark.usefixtures("thawed")
def test_the_collection_after_a_long_one_walks_only_what_is_new() -> None:
    kept: list[dict[str, Any]] = [{"n": [number]} for number in range(MANY)]
    with Survivors():
        gc.collect()
    assert gc.get_freeze_count() > MANY
    assert len(gc.get_objects()) < MANY
    assert kept


@pytest.mark.usefixtures("thawed")
def test_a_growing_store_makes_no_collection_long() -> None:
    """By what a collection has to walk: how long that takes is the machine's."""
    kept: list[dict[str, Any]] = []
    walked: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            walked.append(len(gc.get_objects()))

    gc.collect()
    gc.freeze()
    gc.collect()  # the next full one comes by what this one leaves, which is little
    with Survivors(clock=iter(range(10_000_000)).__next__):
        gc.callbacks.append(note)
        kept += ({"n": [number]} for number in range(MANY))
        gc.callbacks.remove(note)
    assert kept
    assert walked
    assert max(walked) < MANY // 8


def test_the_collector_is_left_as_it_was() -> None:
    callbacks, thresholds = list(gc.callbacks), gc.get_threshold()
    with Survivors():
        assert len(gc.callbacks) == len(callbacks) + 1
        assert gc.get_threshold() != thresholds
    assert gc.callbacks == callbacks
    assert gc.get_threshold() == thresholds
