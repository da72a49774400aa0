import asyncio
import gc
import time

import pytest
import structlog

from gpuruntime.observe.metrics import Registry
from gpuruntime.observe.reporter import GarbagePauses, measure_loop_lag, report_status


@pytest.mark.looptime
async def test_one_line_of_facts_comes_every_interval() -> None:
    with structlog.testing.capture_logs() as lines:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(report_status(lambda: {"units": 3}, interval_seconds=30))
            await asyncio.sleep(95)
            task.cancel()
    assert lines == [{"event": "runtime status", "units": 3, "log_level": "info"}] * 3


@pytest.mark.looptime
async def test_loop_lag_is_measured_against_the_asked_time() -> None:
    registry = Registry()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(measure_loop_lag(registry, interval_seconds=1))
        await asyncio.sleep(3.5)
        task.cancel()
    assert b"gpuruntime_loop_lag_seconds_count 3.0" in registry.text()


def test_a_garbage_collection_is_timed_while_entered_and_not_after() -> None:
    registry = Registry()
    with GarbagePauses(registry, time.monotonic):
        gc.collect()
    gc.collect()
    assert b'gpuruntime_gc_pause_seconds_count{generation="2"} 1.0' in registry.text()
