"""Limits of file transfers: size, time and number; and the end of a transfer that is stuck."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Final

import attrs
from aiohttp import web

from gpuruntime.concurrency.clock import loop_time

# aiohttp reports no lost caller to a handler, so the transport is polled.
LOOK_EVERY_SECONDS: Final = 1.0


@attrs.frozen(kw_only=True, slots=True)
class FileLimits:
    """Limits of files; `most_bytes` bounds each body, in either direction.

    `at_once` is for one process, `at_once_each` for each caller that it knows.
    """

    most_bytes: int
    idle_seconds: float
    longest_seconds: float
    connect_seconds: float = 5.0
    at_once: int
    at_once_each: int


class End(StrEnum):
    GONE = "gone"
    SILENT = "silent"
    TOO_LONG = "too long"


class TransferTimeouts:
    """Watches one transfer until its caller is gone, no byte moves, or its time is over."""

    def __init__(self, request: web.Request, limits: FileLimits) -> None:
        self._request = request
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._began_at = self._moved_at = loop_time()
        self._next: asyncio.TimerHandle | None = None
        # Why the transfer was ended, once it was.
        self.end: End | None = None

    def moved(self) -> None:
        """Record that a byte went on, in either direction."""
        self._moved_at = loop_time()

    def watch(self, timer: asyncio.Timeout) -> None:
        """Check now and then regularly; end `timer` when the transfer has to end."""
        now = loop_time()
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

    def stop(self) -> None:
        if self._next:
            self._next.cancel()


@asynccontextmanager
async def watched(watch: TransferTimeouts) -> AsyncIterator[None]:
    """Watch a transfer while the context is open; raise TimeoutError, whose cause is `end`."""
    async with asyncio.timeout(None) as timer:
        watch.watch(timer)
        try:
            yield
        finally:
            watch.stop()
