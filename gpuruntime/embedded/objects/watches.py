"""Open watches of one kind, and the events that each has yet to send."""

import asyncio
from collections import deque
from collections.abc import Iterator

from gpuruntime.embedded.objects.selection import Selection, WatchEvent
from gpuruntime.embedded.objects.versions import Change, split


class Watch:
    """The pending events of one client, in order and bounded.

    If a client falls behind by more than the limit, its watch drops its events and ends. The limit
    is the history's, so a slow client holds references and no bytes of its own. A watch that
    begins at a future version ignores changes up to it.
    """

    def __init__(self, selection: Selection, limit: int, *, begun_version: int = 0) -> None:
        self.selection = selection
        self._begun_version = begun_version
        self.is_over = False
        self._limit = limit
        self._pending: deque[WatchEvent] = deque()
        self._waiter: asyncio.Future[None] | None = None

    def offer(self, change: Change) -> None:
        if self.is_over or change.version <= self._begun_version:
            return
        event = self.selection.event_for(change)
        if event is None:
            return
        if len(self._pending) >= self._limit:
            self.end()
            return
        self._pending.append(event)
        if self._waiter is not None:
            _wake(self._waiter)

    def end(self) -> None:
        self.is_over = True
        self._pending.clear()
        if self._waiter is not None:
            _wake(self._waiter)

    def take(self, most: int) -> list[WatchEvent]:
        """Take the oldest pending events, at most `most`."""
        return [self._pending.popleft() for _ in range(min(most, len(self._pending)))]

    async def wait_until(self, moment: float) -> None:
        """Wait until an event is pending, the watch is over, or the loop's time is `moment`."""
        if self._pending or self.is_over:
            return
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = loop.call_at(moment, _wake, self._waiter)
        try:
            await self._waiter
        finally:
            timer.cancel()
            self._waiter = None


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class Watches:
    """Open watches; a change reaches only those whose namespace and name it may match.

    They receive it in the order in which they began: a run must not depend on hashes.
    """

    def __init__(self) -> None:
        self._watches: dict[tuple[str, str], dict[Watch, None]] = {}

    def add(self, watch: Watch) -> None:
        self._watches.setdefault(_place(watch), {})[watch] = None

    def remove(self, watch: Watch) -> None:
        """Remove the watch; do nothing if it is absent."""
        there = self._watches.get(_place(watch), {})
        there.pop(watch, None)
        if not there:
            self._watches.pop(_place(watch), None)

    def close(self) -> None:
        """End all watches, because their kind is no longer served."""
        for there in self._watches.values():
            for watch in there:
                watch.end()

    def publish(self, change: Change) -> None:
        for watch in self._concerned(change):
            watch.offer(change)

    def _concerned(self, change: Change) -> Iterator[Watch]:
        namespace, name = split(change.path)
        places = (("", ""), ("", name), (namespace, ""), (namespace, name))
        for place in dict.fromkeys(places):
            yield from self._watches.get(place, ())

    def __len__(self) -> int:
        return sum(map(len, self._watches.values()))


def _place(watch: Watch) -> tuple[str, str]:
    return watch.selection.namespace, watch.selection.name
