"""One line of runtime status at a fixed interval, and how late the loop runs meanwhile."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from gpuruntime.meter import Meter

# Whatever holds the loop for longer than that is seen, however rarely it does.
LAG_INTERVAL_SECONDS: Final = 0.05

log = structlog.get_logger()


async def report_status(
    facts: Callable[[], Mapping[str, object]], *, interval_seconds: float
) -> None:
    """`facts` reads memory only: it runs on the loop."""
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
    """How much later than asked the loop wakes us, and for how long it was at work at a stretch.

    What that does not explain of a lag is time in which the process was given no processor.
    """
    while True:
        due = clock() + interval_seconds
        await asyncio.sleep(interval_seconds)
        meter.observe("loop_lag_seconds", max(0.0, clock() - due))
        if held is not None:
            meter.observe("loop_held_seconds", held())
