"""Delayed keys: one heap and one timer of the loop for all of them."""

import asyncio
import heapq
from collections.abc import Callable, Hashable
from itertools import count
from typing import Generic, TypeVar

from gpuruntime.concurrency.clock import loop_time

KeyT = TypeVar("KeyT", bound=Hashable)

# A heap of at most this many entries is never cleared of outdated ones.
_FEW_ENTRIES = 64


class Delays(Generic[KeyT]):
    """Delays calls `on_due` with each key at the earliest moment put for it, in loop time."""

    def __init__(self, on_due: Callable[[KeyT], None]) -> None:
        self._on_due = on_due
        # The moment at which each waiting key is due. The heap may hold others, which are
        # outdated.
        self._moments: dict[KeyT, float] = {}
        # Every waiting key with its moment, and outdated entries, whose moment is not the key's
        # any more. It holds at most twice as many entries as there are waiting keys, plus
        # `_FEW_ENTRIES`.
        self._heap: list[tuple[float, int, KeyT]] = []
        # Set while any key waits, and never later than the earliest moment.
        self._timer: asyncio.TimerHandle | None = None
        # Breaks ties, so that keys are never compared.
        self._sequence = count()

    def put(self, key: KeyT, moment: float) -> None:
        """Add the key; a key that already waits keeps the earlier of its two moments."""
        if self._moments.get(key, float("inf")) <= moment:
            return
        self._moments[key] = moment
        heapq.heappush(self._heap, (moment, next(self._sequence), key))
        self._drop_outdated()
        self._set_timer()

    def discard(self, key: KeyT) -> None:
        if self._moments.pop(key, None) is not None:
            self._drop_outdated()

    def clear(self) -> None:
        self._moments.clear()
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def __len__(self) -> int:
        return len(self._moments)

    def _counts(self, moment: float, key: KeyT) -> bool:
        return self._moments.get(key) == moment

    def _drop_outdated(self) -> None:
        if len(self._heap) > 2 * len(self._moments) + _FEW_ENTRIES:
            self._heap = [entry for entry in self._heap if self._counts(entry[0], entry[2])]
            heapq.heapify(self._heap)

    def _set_timer(self) -> None:
        if not self._heap:
            return
        earliest = self._heap[0][0]
        if self._timer is not None:
            if self._timer.when() <= earliest:
                return
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(earliest, self._come_due, earliest)

    def _come_due(self, moment: float) -> None:
        """Hand over all due keys. The timer fires early by up to the clock's resolution."""
        self._timer = None
        now = max(moment, loop_time())
        while self._heap and self._heap[0][0] <= now:
            due, _, key = heapq.heappop(self._heap)
            if self._counts(due, key):
                del self._moments[key]
                self._on_due(key)
        self._set_timer()
