"""One line of runtime status at a fixed interval, and how late the loop runs meanwhile."""

import asyncio
import gc
from collections.abc import Callable, Mapping

import structlog

from gpuruntime.meter import Meter

log = structlog.get_logger()


async def report_status(
    facts: Callable[[], Mapping[str, object]], *, interval_seconds: float
) -> None:
    """`facts` reads memory only: it runs on the loop."""
    while True:
        await asyncio.sleep(interval_seconds)
        log.info("runtime status", **facts())


async def measure_loop_lag(meter: Meter, *, interval_seconds: float = 0.25) -> None:
    """How much later than asked the loop wakes us is how long something held it."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + interval_seconds
        await asyncio.sleep(interval_seconds)
        meter.observe("loop_lag_seconds", max(0.0, loop.time() - due))


class GarbagePauses:
    """Times each collection of the garbage collector while entered."""

    def __init__(self, meter: Meter, clock: Callable[[], float]) -> None:
        self._meter = meter
        self._clock = clock
        self._started = 0.0

    def __enter__(self) -> None:
        gc.callbacks.append(self._notice)

    def __exit__(self, *_: object) -> None:
        gc.callbacks.remove(self._notice)

    def _notice(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._started = self._clock()
        else:
            self._meter.observe(
                "gc_pause_seconds",
                self._clock() - self._started,
                generation=str(info["generation"]),
            )
