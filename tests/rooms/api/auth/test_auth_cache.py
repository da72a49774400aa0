"""Verdicts are kept for a while, bounded in number, with one review in flight for each key."""

import asyncio

import pytest

from gpuruntime.api.auth.auth_cache import AuthCache
from gpuruntime.api.errors import CrowdedError, NotServingError

pytestmark = pytest.mark.looptime


class Source:
    def __init__(self) -> None:
        self.asked = 0
        self.is_away = False

    async def ask(self) -> int:
        self.asked += 1
        await asyncio.sleep(1)
        if self.is_away:
            raise NotServingError("away")
        return self.asked


async def test_the_oldest_verdict_is_dropped_first() -> None:
    source, verdicts = Source(), AuthCache[int](lambda _: 60.0, most_kept=2)
    for key in "abc":
        await verdicts.get(key, source.ask)
    assert len(verdicts) == 2
    assert await verdicts.get("c", source.ask) == 3
    assert await verdicts.get("a", source.ask) == 4


async def test_a_failure_reaches_all_waiting_callers_and_is_not_kept() -> None:
    source, verdicts = Source(), AuthCache[int](lambda _: 60.0)
    source.is_away = True

    async def told() -> bool:
        try:
            await verdicts.get("a", source.ask)
        except NotServingError:
            return False
        return True

    async with asyncio.TaskGroup() as tasks:
        asking = [tasks.create_task(told()) for _ in range(5)]
    assert [task.result() for task in asking] == [False] * 5
    assert source.asked == 1
    source.is_away = False
    assert await told()


async def test_a_cancelled_review_is_repeated_by_a_waiting_caller() -> None:
    source, verdicts = Source(), AuthCache[int](lambda _: 60.0)
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(verdicts.get("a", source.ask))
        second = tasks.create_task(verdicts.get("a", source.ask))
        await asyncio.sleep(0.5)
        first.cancel()
    assert second.result() == 2


async def test_reviews_beyond_the_limit_are_refused() -> None:
    source, verdicts = Source(), AuthCache[int](lambda _: 60.0, most_asked=2)
    async with asyncio.TaskGroup() as tasks:
        for key in "ab":
            tasks.create_task(verdicts.get(key, source.ask))
        await asyncio.sleep(0.5)
        with pytest.raises(CrowdedError):
            await verdicts.get("c", source.ask)
    assert await verdicts.get("c", source.ask) == 3
