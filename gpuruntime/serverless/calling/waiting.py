"""Waits for the end of one invocation: the broker reports it, and polling confirms it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from gpuruntime.bus.errors import BadNameError, MalformedMessageError, UnavailableError
from gpuruntime.bus.messages import Record
from gpuruntime.bus.records import record_of
from gpuruntime.bus.session import Message
from gpuruntime.concurrency.waiting import is_set_within
from gpuruntime.serverless.broker import BrokerLink

LOOK_SECONDS: Final = 5.0
# How often between two reads to check that the caller is still connected.
WANTED_LOOKS: Final = 5
PAUSE_SECONDS: Final = 0.5


class RecordWatch:
    """Receives every change of the record while its context is open.

    The broker republishes the stored record itself, so an end received here needs no read.
    """

    def __init__(self, queue: BrokerLink, function: str, invocation: str) -> None:
        self._queue = queue
        self._function = function
        self._invocation = invocation
        self._changed = asyncio.Event()
        self._ended: Record | None = None

    async def end(self, *, is_wanted: Callable[[], bool]) -> Record | None:
        """Return the terminal record, or None once the caller has disconnected.

        A replica that lags may show no record, so a missing record means nothing.
        """
        while is_wanted():
            session = await self._queue.connection.connected()
            session.at_end(self._changed.set)
            try:
                stored = await self._queue.records.read(self._function, self._invocation)
                if stored is not None and stored.record.state.is_terminal:
                    return stored.record
                await self._until_changed(is_wanted)
            except UnavailableError:
                await asyncio.sleep(PAUSE_SECONDS)
            finally:
                session.forget(self._changed.set)
            if self._ended is not None:
                return self._ended
        return None

    def receive(self, message: Message) -> None:
        try:
            record = record_of(message.subject, message.data, self._queue.names)
        except (MalformedMessageError, BadNameError):
            self._changed.set()
            return
        if record.state.is_terminal:
            self._ended = record
            self._changed.set()

    async def _until_changed(self, is_wanted: Callable[[], bool]) -> None:
        """Wait for a report until the next read is due, or until the caller disconnects."""
        for _ in range(WANTED_LOOKS):
            await is_set_within(self._changed, LOOK_SECONDS / WANTED_LOOKS)
            if self._changed.is_set() or not is_wanted():
                break
        self._changed.clear()


@asynccontextmanager
async def watching(
    queue: BrokerLink, function: str, invocation: str
) -> AsyncIterator[RecordWatch]:
    watch = RecordWatch(queue, function, invocation)
    async with queue.connection.listening(
        queue.names.changed(function, invocation), watch.receive
    ):
        yield watch
