"""The end of a transfer that is stuck, too long, or no longer wanted."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Final

from aiohttp import web

from gpuruntime.concurrency.clock import loop_time

# aiohttp reports no lost caller to a handler, so the transport is polled.
LOOK_EVERY_SECONDS: Final = 1.0


class End(StrEnum):
    GONE = "gone"
    SILENT = "silent"
    TOO_LONG = "too long"
    REVOKED = "revoked"


class TransferTimeouts:
    """Watches one transfer until its caller is gone, no byte moves, or its time is over."""

    def __init__(
        self, request: web.Request, *, idle_seconds: float, longest_seconds: float
    ) -> None:
        self._request = request
        self.idle_seconds = idle_seconds
        self._longest_seconds = longest_seconds
        self._loop = asyncio.get_running_loop()
        self._began_at = self._moved_at = loop_time()
        self._next: asyncio.TimerHandle | None = None
        self._timer: asyncio.Timeout | None = None
        # Why the transfer was ended, once it was.
        self.end: End | None = None

    def moved(self) -> None:
        """Record that a byte went on, in either direction."""
        self._moved_at = loop_time()

    def watch(self, timer: asyncio.Timeout) -> None:
        """Check now and then regularly; end `timer` when the transfer has to end."""
        now, self._timer = loop_time(), timer
        if self.end:
            pass
        elif self._request.transport is None:
            self.end = End.GONE
        elif now - self._moved_at >= self.idle_seconds:
            self.end = End.SILENT
        elif now - self._began_at >= self._longest_seconds:
            self.end = End.TOO_LONG
        if self.end:
            timer.reschedule(now)
        else:
            self._next = self._loop.call_later(LOOK_EVERY_SECONDS, self.watch, timer)

    def revoke(self) -> None:
        """End the transfer now, or at its begin."""
        self.end = self.end or End.REVOKED
        if self._timer is not None and not self._timer.expired():
            self._timer.reschedule(loop_time())

    def stop(self) -> None:
        self._timer = None
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
