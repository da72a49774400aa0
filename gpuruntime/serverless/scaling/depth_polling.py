"""The depths of all functions as they were last read, and the one task that reads them."""

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final, Protocol

import structlog

from gpuruntime.bus.errors import BusError
from gpuruntime.meter import Meter, NullMeter
from gpuruntime.serverless.scaling.queue_depths import Depths

log = structlog.get_logger()

BUSY_SECONDS: Final = 2.0
IDLE_SECONDS: Final = 10.0
# However often somebody asks for a look.
APART_SECONDS: Final = 0.05
PAUSE_SECONDS: Final = 1.0


class Tell(Protocol):
    def __call__(self, function: str, *, is_urgent: bool) -> None:
        """Of a function that has work, or had some. What is urgent cannot wait for a second."""
        ...


class DepthPoller:
    """`tell_all` hears of the first reading after none."""

    def __init__(
        self,
        depths: Depths,
        *,
        tell: Tell,
        tell_all: Callable[[], None],
        meter: Meter = NullMeter(),
    ) -> None:
        self._source = depths
        self._tell = tell
        self._tell_all = tell_all
        self._meter = meter
        self._depths: dict[str, int] | None = None
        # Functions that were woken since the last reading began: it may not show why.
        self._woken: set[str] = set()
        self._due = asyncio.Event()

    def of(self, function: str) -> int | None:
        """None while nobody knows."""
        if self._depths is None:
            return None
        return max(self._depths.get(function, 0), int(function in self._woken))

    def adopt(self, depths: dict[str, int], *, woken: Collection[str] = ()) -> None:
        """What a reading found that began after these were woken. Tells whoever it concerns.

        Of one that was woken the work may be done before any reading has shown it.
        """
        before, self._depths = self._depths, depths
        self._woken.difference_update(woken)
        self._meter.gauge("serverless_depth", sum(depths.values()))
        if before is None:
            self._tell_all()
        known = before or {}
        for function in {*depths, *known, *woken}:
            is_jump = _is_jump(known.get(function, 0), depths.get(function, 0))
            self._tell(function, is_urgent=is_jump)

    def forget(self) -> None:
        """The broker is away: what was read is no longer so."""
        self._depths = None

    def wake(self, function: str) -> None:
        self._woken.add(function)
        self.look()

    def look(self) -> None:
        """Soon, and not only at the next turn."""
        self._due.set()

    async def run(self) -> None:
        while True:
            await self._until_due()
            self._due.clear()
            woken = set(self._woken)
            try:
                depths = await self._source.read()
            except BusError as error:
                if self._depths is not None:
                    log.warning("depths unknown", reason=str(error))
                self.forget()
                await asyncio.sleep(PAUSE_SECONDS)
                self.look()
                continue
            self.adopt(depths, woken=woken)
            await asyncio.sleep(APART_SECONDS)

    async def _until_due(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(BUSY_SECONDS if self._depths else IDLE_SECONDS):
                await self._due.wait()


def _is_jump(before: int, now: int) -> bool:
    """From nothing or to nothing, or to far more."""
    return now > 2 * before or (now == 0) != (before == 0)
