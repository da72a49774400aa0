"""The processor time of each pass of the event loop.

Late wake-ups do not show it: a process without a processor is late, too.
"""

import asyncio
import selectors
import time
from collections.abc import Callable


class LongestPass:
    """The longest pass since the last `take`."""

    __slots__ = ("_seconds",)

    def __init__(self) -> None:
        self._seconds = 0.0

    def note(self, seconds: float) -> None:
        self._seconds = max(self._seconds, seconds)

    def take(self) -> float:
        seconds, self._seconds = self._seconds, 0.0
        return seconds


class _Selector(selectors.DefaultSelector):
    """A selector that measures passes: the loop calls select between two passes only.

    A pass includes the select before it, which takes microseconds of processor time, and no time
    while it waits. So the clock, a system call, is read once a pass.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self.listeners: list[LongestPass] = []
        self._clock = clock
        self._began = clock()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        now = self._clock()
        for listener in self.listeners:
            listener.note(now - self._began)
        self._began = now
        return super().select(timeout)


class MeasuredLoop(asyncio.SelectorEventLoop):
    """The loop of asyncio with a clock around each pass."""

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self._measured = _Selector(clock)
        super().__init__(self._measured)

    def longest_pass(self) -> LongestPass:
        """Return a listener that is updated from now on, as long as the loop lives."""
        listener = LongestPass()
        self._measured.listeners.append(listener)
        return listener
