"""Keeps the pauses of the garbage collector short in a process whose stores grow.

A full collection walks all that it did not free the last time, which holds up the loop. What
survives one that was long is set aside; it is freed as ever when nothing refers to it any more.
Full collections come sooner than is usual, so that each has less to walk.
"""

import gc
import time
from collections.abc import Callable
from typing import Final

# Of the processor; a fifth of what a loop may be held.
LONG_SECONDS: Final = 0.01
# Circles of garbage that are set aside stay for ever: only a collection that found much more to
# keep than to free has few that are still in use, and will be garbage.
KEPT_FOR_EACH_FREED: Final = 10
# How many collections of the middle generation make a full one.
MIDDLE_ONES: Final = 3
_OLDEST: Final = 2


def survivors() -> int:
    return len(gc.get_objects(generation=_OLDEST))


class Survivors:
    """Sets them aside while entered."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.thread_time,
        count: Callable[[], int] = survivors,
        set_aside: Callable[[], None] = gc.freeze,
    ) -> None:
        self._clock = clock
        self._count = count
        self._set_aside = set_aside
        self._started = 0.0
        self._thresholds = gc.get_threshold()

    def __enter__(self) -> None:
        self._thresholds = gc.get_threshold()
        gc.set_threshold(*self._thresholds[:_OLDEST], MIDDLE_ONES)
        gc.callbacks.append(self.notice)

    def __exit__(self, *_: object) -> None:
        gc.callbacks.remove(self.notice)
        gc.set_threshold(*self._thresholds)

    def notice(self, phase: str, info: dict[str, int]) -> None:
        if info["generation"] != _OLDEST:
            return
        if phase == "start":
            self._started = self._clock()
        elif self._clock() - self._started > LONG_SECONDS and self._has_grown(info["collected"]):
            self._set_aside()

    def _has_grown(self, freed: int) -> bool:
        return self._count() >= KEPT_FOR_EACH_FREED * freed
