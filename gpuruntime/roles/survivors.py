"""Keeps the pauses of the garbage collector short in a process whose stores grow.

A full collection walks all that it did not free the last time, which holds up the loop. What
survives one that was long is set aside; it is freed as ever when nothing refers to it any more.
"""

import gc
import time
from collections.abc import Callable
from typing import Final

# Of the processor; half of what a loop may be held.
LONG_SECONDS: Final = 0.025
_OLDEST: Final = 2


class Survivors:
    """Sets them aside while entered."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.thread_time,
        set_aside: Callable[[], None] = gc.freeze,
    ) -> None:
        self._clock = clock
        self._set_aside = set_aside
        self._started = 0.0

    def __enter__(self) -> None:
        gc.callbacks.append(self.notice)

    def __exit__(self, *_: object) -> None:
        gc.callbacks.remove(self.notice)

    def notice(self, phase: str, info: dict[str, int]) -> None:
        if info["generation"] != _OLDEST:
            return
        if phase == "start":
            self._started = self._clock()
        elif self._clock() - self._started > LONG_SECONDS:
            self._set_aside()
