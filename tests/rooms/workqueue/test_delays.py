"""Delayed keys: due in the order of their moments, each once, in bounded memory."""

import asyncio

import pytest

from gpuruntime.workqueue.delays import Delays

pytestmark = pytest.mark.looptime


class Calendar:
    """Delays with a record of the keys that came due, in seconds from now."""

    def __init__(self) -> None:
        self.came_due: list[tuple[float, str]] = []
        self._start = asyncio.get_running_loop().time()
        self.delays: Delays[str] = Delays(self._record)

    def put(self, key: str, seconds: float) -> None:
        self.delays.put(key, self._start + seconds)

    def _record(self, key: str) -> None:
        now = asyncio.get_running_loop().time()
        self.came_due.append((round(now - self._start, 6), key))


async def test_keys_come_due_in_the_order_of_their_moments() -> None:
    calendar = Calendar()
    calendar.put("b", 2)
    calendar.put("c", 3)
    calendar.put("a", 1)

    await asyncio.sleep(10)

    assert calendar.came_due == [(1, "a"), (2, "b"), (3, "c")]
    assert len(calendar.delays) == 0


@pytest.mark.parametrize("moments", [(1, 5), (5, 1)], ids=["earlier first", "later first"])
async def test_the_earlier_of_two_moments_wins(moments: tuple[int, int]) -> None:
    calendar = Calendar()
    for moment in moments:
        calendar.put("a", moment)

    await asyncio.sleep(10)

    assert calendar.came_due == [(1, "a")]


async def test_a_discarded_key_does_not_come_due() -> None:
    calendar = Calendar()
    calendar.put("a", 1)
    calendar.put("b", 2)
    calendar.delays.discard("a")
    calendar.delays.discard("never put")

    await asyncio.sleep(10)

    assert calendar.came_due == [(2, "b")]


async def test_a_key_put_again_after_it_was_discarded_comes_due_once() -> None:
    calendar = Calendar()
    for _ in range(3):
        calendar.put("a", 1)
        calendar.delays.discard("a")
    calendar.put("a", 1)

    await asyncio.sleep(10)

    assert calendar.came_due == [(1, "a")]


async def test_no_key_comes_due_after_clear_until_one_is_put() -> None:
    calendar = Calendar()
    calendar.put("a", 1)
    calendar.delays.clear()
    calendar.put("b", 2)

    await asyncio.sleep(10)

    assert calendar.came_due == [(2, "b")]


async def test_a_key_put_earlier_and_earlier_does_not_grow_the_heap() -> None:
    calendar = Calendar()
    for moment in range(10_000, 0, -1):
        calendar.put("a", moment)

    assert len(calendar.delays._heap) < 100


async def test_a_key_put_and_discarded_repeatedly_does_not_grow_the_heap() -> None:
    calendar = Calendar()
    for _ in range(10_000):
        calendar.put("a", 1)
        calendar.delays.discard("a")

    assert len(calendar.delays._heap) < 100


@pytest.mark.parametrize(
    "moments", [range(1, 100), range(100, 1, -1)], ids=["ascending", "descending"]
)
async def test_many_keys_keep_one_timer_of_the_loop(moments: range) -> None:
    calendar = Calendar()
    for moment in moments:
        calendar.put(str(moment), moment)

    timers = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]  # asyncio's own
    assert sum(not timer.cancelled() for timer in timers) == 1
    calendar.delays.clear()
    assert all(timer.cancelled() for timer in timers)
