"""One line of runtime status at a fixed interval, and how late the loop runs meanwhile."""

import asyncio
import gc
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from gpuruntime.meter import Meter

# Whatever holds the loop for longer than that is seen, however rarely it does.
LAG_INTERVAL_SECONDS: Final = 0.05
PAUSES_SECONDS: Final = 1.0

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


class GarbagePauses:
    """Times each collection of the garbage collector while entered, and tells them from `run`.

    A collection comes in the middle of anything, of counting as well: whoever counted from there
    would wait for ever for the lock of what it has interrupted.
    """

    def __init__(self, meter: Meter, clock: Callable[[], float]) -> None:
        self._meter = meter
        self._clock = clock
        self._started = 0.0
        # Of each collection since the last look its generation, and how long it took.
        self._pauses: list[tuple[str, float]] = []

    def __enter__(self) -> "GarbagePauses":
        gc.callbacks.append(self._notice)
        return self

    def __exit__(self, *_: object) -> None:
        gc.callbacks.remove(self._notice)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(PAUSES_SECONDS)
            self.tell()

    def tell(self) -> None:
        pauses, self._pauses = self._pauses, []
        for generation, seconds in pauses:
            self._meter.observe("gc_pause_seconds", seconds, generation=generation)

    def _notice(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._started = self._clock()
        else:
            self._pauses.append((str(info["generation"]), self._clock() - self._started))
