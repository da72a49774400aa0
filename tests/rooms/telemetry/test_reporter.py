import asyncio

import pytest
import structlog

from gpuruntime.telemetry.metrics import Registry
from gpuruntime.telemetry.reporter import (
    measure_loop_lag,
    report_status,
)


@pytest.mark.looptime
async def test_a_line_of_facts_is_logged_at_every_interval() -> None:
    with structlog.testing.capture_logs() as lines:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(report_status(lambda: {"units": 3}, interval_seconds=30))
            await asyncio.sleep(95)
            task.cancel()
    assert lines == [{"event": "runtime status", "units": 3, "log_level": "info"}] * 3


async def measured(*, clock: list[float], held: float | None = None) -> bytes:
    """Return the metrics after one wake-up, asked for after a second, with this clock."""
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
async def test_a_loop_that_is_not_measured_reports_no_holds() -> None:
    text = await measured(clock=[10.0, 13.0])
    assert b"gpuruntime_loop_held_seconds_sum 0.0" in text or b"loop_held" not in text
