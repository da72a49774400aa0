"""Tells the activator that functions have work: at once, then at most every 50 ms."""

import asyncio
from contextlib import suppress
from typing import Final

from gpuruntime.bus.connection import Connection
from gpuruntime.bus.errors import UnavailableError
from gpuruntime.bus.names import Names

APART_SECONDS: Final = 0.05


class Wakeups:
    """Sends wake-ups. A lost one costs only time, because the activator also polls."""

    def __init__(self, connection: Connection, names: Names) -> None:
        self._connection = connection
        self._names = names
        self._due: set[str] = set()
        self._is_due = asyncio.Event()

    def wake(self, function: str) -> None:
        self._due.add(function)
        self._is_due.set()

    async def run(self) -> None:
        while True:
            await self._is_due.wait()
            self._is_due.clear()
            due, self._due = self._due, set()
            with suppress(UnavailableError):
                for function in sorted(due):
                    await self._connection.publish(self._names.wake(function), b"")
            await asyncio.sleep(APART_SECONDS)
