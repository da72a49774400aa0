import asyncio
import gc
import time
from threading import Lock

import pytest
import structlog

from gpuruntime.meter import NullMeter
from gpuruntime.telemetry.metrics import Registry
from gpuruntime.telemetry.reporter import (
    PAUSES_SECONDS,
    GarbagePauses,
    measure_loop_lag,
    report_status,
)


@pytest.mark.looptime
async def test_one_line_of_facts_comes_every_interval() -> None:
    with structlog.testing.capture_logs() as lines:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(report_status(lambda: {"units": 3}, interval_seconds=30))
            await asyncio.sleep(95)
            task.cancel()
    assert lines == [{"event": "runtime status", "units": 3, "log_level": "info"}] * 3


async def measured(*, clock: list[float], held: float | None = None) -> bytes:
    """What is said of one wake, asked for after a second, by a clock that shows these moments."""
    registry = Registry()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(
            measure_loop_lag(
                registry,
                clock=iter([*clock, 0.0]).__next__,
                held=None if held is None else lambda: held,
                interval_seconds=1,
            )
        )
        await asyncio.sleep(1.5)
        task.cancel()
    return registry.text()


@pytest.mark.looptime
async def test_loop_lag_is_measured_against_the_asked_time() -> None:
    text = await measured(clock=[10.0, 11.25])
    assert b"gpuruntime_loop_lag_seconds_sum 0.25" in text


@pytest.mark.looptime
async def test_a_loop_that_got_no_processor_was_not_held_by_its_own_work() -> None:
    text = await measured(clock=[10.0, 13.0], held=0.5)
    assert b"gpuruntime_loop_lag_seconds_sum 2.0" in text
    assert b"gpuruntime_loop_held_seconds_sum 0.5" in text


@pytest.mark.looptime
async def test_of_a_loop_that_is_not_measured_nothing_is_told() -> None:
    text = await measured(clock=[10.0, 13.0])
    assert b"gpuruntime_loop_held_seconds_sum 0.0" in text or b"loop_held" not in text


def test_a_garbage_collection_is_timed_while_entered_and_not_after() -> None:
    registry = Registry()
    with GarbagePauses(registry, time.monotonic) as pauses:
        gc.collect()
    gc.collect()
    pauses.tell()
    pauses.tell()
    assert b'gpuruntime_gc_pause_seconds_count{generation="2"} 1.0' in registry.text()


def test_a_collection_in_the_middle_of_counting_is_counted_later() -> None:
    class OneAtATime(NullMeter):
        """As the registry, whose locks are not for whoever holds them already."""

        def __init__(self) -> None:
            self.observed: list[str] = []
            self._lock = Lock()

        def observe(self, name: str, _seconds: float, /, **_labels: str) -> None:
            assert self._lock.acquire(blocking=False), "this would wait for ever"
            try:
                gc.collect()
                self.observed.append(name)
            finally:
                self._lock.release()

    meter = OneAtATime()
    with GarbagePauses(meter, time.monotonic) as pauses:
        meter.observe("loop_lag_seconds", 1.0)
        assert meter.observed == ["loop_lag_seconds"]
        pauses.tell()
    assert meter.observed == ["loop_lag_seconds", "gc_pause_seconds"]


@pytest.mark.looptime
async def test_collections_are_told_within_a_second() -> None:
    registry = Registry()
    with GarbagePauses(registry, time.monotonic) as pauses:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(pauses.run())
            gc.collect()
            await asyncio.sleep(PAUSES_SECONDS * 1.5)
            task.cancel()
    assert b'gpuruntime_gc_pause_seconds_count{generation="2"} 1.0' in registry.text()
