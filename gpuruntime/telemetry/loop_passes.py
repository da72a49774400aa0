"""How long the loop is at work at a stretch, by the processor time of each of its passes.

How late it wakes somebody does not tell that: a process that is given no processor is late too.
"""

import asyncio
import selectors
import time
from collections.abc import Callable


class LongestPass:
    """Since it was last taken."""

    __slots__ = ("_seconds",)

    def __init__(self) -> None:
        self._seconds = 0.0

    def note(self, seconds: float) -> None:
        self._seconds = max(self._seconds, seconds)

    def take(self) -> float:
        seconds, self._seconds = self._seconds, 0.0
        return seconds


class _Selector(selectors.DefaultSelector):
    """The loop asks it for news between two passes, and at no other time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self.listeners: list[LongestPass] = []
        self._clock = clock
        self._began = clock()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        seconds = self._clock() - self._began
        for listener in self.listeners:
            listener.note(seconds)
        try:
            return super().select(timeout)
        finally:
            self._began = self._clock()


class MeasuredLoop(asyncio.SelectorEventLoop):
    """asyncio's own, but for the clock around each pass."""

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self._measured = _Selector(clock)
        super().__init__(self._measured)

    def longest_pass(self) -> LongestPass:
        """From now on, for as long as the loop lives."""
        listener = LongestPass()
        self._measured.listeners.append(listener)
        return listener
