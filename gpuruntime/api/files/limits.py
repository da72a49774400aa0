"""How much, how long and how many: the bounds of files on their way, and what ends a stuck one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Final

import attrs
from aiohttp import web

# aiohttp tells no handler that its caller left, so it is looked at.
LOOK_EVERY_SECONDS: Final = 1.0


@attrs.frozen(kw_only=True, slots=True)
class FileLimits:
    """The bytes are of one body, either way.

    `at_once` is of one process, `at_once_each` of each caller that is known to it.
    """

    most_bytes: int = 100 * 2**30
    idle_seconds: float = 60.0
    longest_seconds: float = 3600.0
    connect_seconds: float = 5.0
    at_once: int = 256
    at_once_each: int = 64


class End(StrEnum):
    GONE = "gone"
    SILENT = "silent"
    TOO_LONG = "too long"


class TransferTimeouts:
    """With one exchange: until its caller is gone, nothing moves any more, or its time is over."""

    def __init__(self, request: web.Request, limits: FileLimits) -> None:
        self._request = request
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._began_at = self._moved_at = self._loop.time()
        self._next: asyncio.TimerHandle | None = None
        # What it came to, once it is at its end.
        self.end: End | None = None

    def moved(self) -> None:
        """A byte went on, in either direction."""
        self._moved_at = self._loop.time()

    def watch(self, timer: asyncio.Timeout) -> None:
        """Looks now, and from then on again and again."""
        now = self._loop.time()
        if self._request.transport is None:
            self.end = End.GONE
        elif now - self._moved_at >= self._limits.idle_seconds:
            self.end = End.SILENT
        elif now - self._began_at >= self._limits.longest_seconds:
            self.end = End.TOO_LONG
        if self.end:
            timer.reschedule(now)
        else:
            self._next = self._loop.call_later(LOOK_EVERY_SECONDS, self.watch, timer)

    def rest(self) -> None:
        if self._next:
            self._next.cancel()


@asynccontextmanager
async def patience(watch: TransferTimeouts) -> AsyncIterator[None]:
    """Raises TimeoutError at the end of it; `end` tells which."""
    async with asyncio.timeout(None) as timer:
        watch.watch(timer)
        try:
            yield
        finally:
            watch.rest()
