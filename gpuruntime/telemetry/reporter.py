"""A line of runtime status at a fixed interval, and the lag of the event loop."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from gpuruntime.meter import Meter

# Longer holds of the loop are noticed, however rare they are.
LAG_INTERVAL_SECONDS: Final = 0.05

log = structlog.get_logger()


async def report_status(
    facts: Callable[[], Mapping[str, object]], *, interval_seconds: float
) -> None:
    """Log the facts at each interval. `facts` runs on the loop, so it reads memory only."""
    while True:
        await asyncio.sleep(interval_seconds)
        log.info("runtime status", **facts())


async def measure_loop_lag(
    meter: Meter,
    *,
    clock: Callable[[], float],
    held: Callable[[], float] | None = None,
    interval_seconds: float = LAG_INTERVAL_SECONDS,
) -> None:
    """Measure how late the loop wakes this task, and the longest stretch of work on the loop.

    Any lag beyond that work is time in which the process had no processor.
    """
    while True:
        due = clock() + interval_seconds
        await asyncio.sleep(interval_seconds)
        meter.observe("loop_lag_seconds", max(0.0, clock() - due))
        if held is not None:
            meter.observe("loop_held_seconds", held())
