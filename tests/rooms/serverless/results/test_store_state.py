import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from random import Random

import pytest

from gpuruntime.serverless.results.store_state import (
    LONGEST_PAUSE_SECONDS,
    OldestUnkept,
    StoreState,
)
from gpuruntime.telemetry.metrics import Registry
from tests.rooms.bus.broker import FUNCTION
from tests.rooms.serverless.results.results import NOW, Shelf, ended, parts

pytestmark = pytest.mark.looptime
WINDOW_SECONDS = 100.0


@asynccontextmanager
async def keeping(shelf: Shelf, metrics: Registry | None = None) -> AsyncIterator[StoreState]:
    """A store state whose wall clock follows loop time."""
    clock = asyncio.get_running_loop().time
    made = StoreState(
        shelf,
        retention_seconds=3600,
        window_seconds=WINDOW_SECONDS,
        now=lambda: NOW + timedelta(seconds=clock()),
        rng=Random(1),
        meter=metrics or Registry(),
    )
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(made.run())
        await asyncio.sleep(0)
        yield made
        running.cancel()


def value(metrics: Registry, name: str) -> float:
    lines = metrics.text().decode().splitlines()
    [line] = [line for line in lines if line.startswith(f"gpuruntime_{name} ")]
    return float(line.split()[1])


async def test_nothing_is_kept_before_the_store_is_prepared() -> None:
    shelf = Shelf()
    shelf.away = "no database"
    async with keeping(shelf) as made:
        await asyncio.sleep(60)
        assert not await made.keep(ended(), parts(), written_at=NOW)
        assert made.problem == "no database"
        shelf.away = ""
        await asyncio.sleep(LONGEST_PAUSE_SECONDS)
        assert made.problem == ""
        assert await made.keep(ended(), parts(), written_at=NOW)
        assert await shelf.read(FUNCTION, "one") == ended()


async def test_an_unreachable_store_is_tried_by_one_task_at_growing_intervals() -> None:
    shelf = Shelf()
    async with keeping(shelf) as made:
        await asyncio.sleep(1)
        shelf.away = "gone"
        for number in range(50):
            assert not await made.keep(ended(f"i{number}"), parts(), written_at=NOW)
        assert shelf.asked == 1
        await asyncio.sleep(600)
        assert 60 <= shelf.prepared <= 600 / (LONGEST_PAUSE_SECONDS / 2) + 10


async def test_a_store_that_prepares_but_keeps_nothing_is_tried_at_growing_intervals() -> None:
    """A full disk has this effect."""

    class Full(Shelf):
        async def prepare(self) -> None:
            self.prepared += 1

    shelf = Full()
    shelf.away = "disk full"
    async with keeping(shelf) as made:
        for _ in range(6000):
            await asyncio.sleep(0.1)
            assert not await made.keep(ended(), parts(), written_at=NOW)
        assert shelf.asked <= shelf.prepared <= 600 / (LONGEST_PAUSE_SECONDS / 2) + 10
        shelf.away = ""
        await asyncio.sleep(LONGEST_PAUSE_SECONDS)
        assert await made.keep(ended(), parts(), written_at=NOW)


async def test_a_rejected_result_does_not_affect_the_others() -> None:
    shelf, metrics = Shelf(), Registry()
    async with keeping(shelf, metrics) as made:
        await asyncio.sleep(1)
        assert not await made.keep(ended("bad"), parts(), written_at=NOW)
        assert made.problem == ""
        assert await made.keep(ended("good"), parts(), written_at=NOW)
        assert value(metrics, "results_database_errors_total") == 1
        assert value(metrics, "results_stored_total") == 1


async def test_old_results_are_swept_and_a_failed_sweep_is_repaired() -> None:
    shelf = Shelf()
    async with keeping(shelf) as made:
        await asyncio.sleep(400)
        assert shelf.swept_before
        shelf.away = "gone"
        await asyncio.sleep(400)
        assert made.problem == "gone"
        shelf.away = ""
        count = len(shelf.swept_before)
        await asyncio.sleep(400)
        assert made.problem == ""
        assert len(shelf.swept_before) > count
        age = NOW + timedelta(seconds=1200) - shelf.swept_before[-1]
        assert timedelta(hours=1) <= age <= timedelta(hours=1, seconds=400)


async def test_the_age_of_the_oldest_waiting_result_is_reported_while_any_waits() -> None:
    shelf, metrics = Shelf(), Registry()
    async with keeping(shelf, metrics) as made:
        await asyncio.sleep(1)
        shelf.away = "gone"
        await made.keep(ended("old"), parts(), written_at=NOW - timedelta(seconds=50))
        await made.keep(ended("new"), parts(), written_at=NOW)
        await asyncio.sleep(10)
        assert value(metrics, "results_store_up") == 0
        assert 55 <= value(metrics, "results_oldest_unstored_seconds") <= 61
        shelf.away = ""
        await asyncio.sleep(2 * WINDOW_SECONDS)
        assert value(metrics, "results_store_up") == 1
        assert value(metrics, "results_oldest_unstored_seconds") == 0


def test_a_result_turned_away_counts_for_one_to_two_windows() -> None:
    oldest = OldestUnkept(10.0)
    oldest.note(NOW, 9.0)
    oldest.note(NOW - timedelta(1), 9.5)
    assert oldest.written_at(19.4) == NOW - timedelta(1)
    oldest.note(NOW, 19.5)
    assert oldest.written_at(25.0) == NOW - timedelta(1)
    assert oldest.written_at(29.5) == NOW
    assert oldest.written_at(50.0) is None
