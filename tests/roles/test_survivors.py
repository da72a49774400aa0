import gc
from collections.abc import Iterator
from typing import Any

import pytest

from gpuruntime.roles.survivors import LONG_SECONDS, Survivors

MANY = 400_000


@pytest.fixture
def thawed() -> Iterator[None]:
    """The suite's own objects are not for this test to freeze."""
    gc.collect()
    yield
    gc.unfreeze()


def collection(survivors: Survivors, generation: int) -> None:
    for phase in ("start", "stop"):
        survivors.notice(phase, {"generation": generation})


@pytest.mark.parametrize(
    ("seconds", "generation", "aside"),
    [(LONG_SECONDS * 2, 2, 1), (LONG_SECONDS / 2, 2, 0), (LONG_SECONDS * 2, 1, 0)],
)
def test_only_what_survives_a_long_full_collection_is_set_aside(
    seconds: float, generation: int, aside: int
) -> None:
    moments = iter((0.0, seconds))
    calls: list[None] = []
    survivors = Survivors(clock=lambda: next(moments), set_aside=lambda: calls.append(None))
    collection(survivors, generation)
    assert len(calls) == aside


@pytest.mark.usefixtures("thawed")
def test_the_collection_after_a_long_one_walks_only_what_is_new() -> None:
    kept: list[dict[str, Any]] = [{"n": [number]} for number in range(MANY)]
    with Survivors():
        gc.collect()
    assert gc.get_freeze_count() > MANY
    assert len(gc.get_objects()) < MANY
    assert kept


def test_nothing_listens_to_the_collector_afterwards() -> None:
    before = list(gc.callbacks)
    with Survivors():
        assert len(gc.callbacks) == len(before) + 1
    assert gc.callbacks == before
