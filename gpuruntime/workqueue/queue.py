"""The work queue: deduplicated keys, each handed out to at most one worker at a time.

It keeps the contract of client-go's work queues. A key added while no worker has it is handed out
once, no matter how often it was added. A key added while a worker has it is handed out again after
`done`. So no change is missed, and no key is processed twice at once. Everything runs on one loop;
the queue is not thread-safe.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Hashable
from enum import IntEnum
from typing import Final, Generic, TypeVar

import attrs

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.errors import GpuRuntimeError
from gpuruntime.meter import Meter, NullMeter
from gpuruntime.workqueue.backoff import Backoff
from gpuruntime.workqueue.delays import Delays

KeyT = TypeVar("KeyT", bound=Hashable)

# Rounding may leave a tiny remainder of a delay. Without this minimum, the key would be due at
# once, find the same remainder, and loop for ever.
_LEAST_DELAY_SECONDS = 0.001
# A lane that was passed over this often is next, so that no key waits for ever.
MOST_PASSED_OVER: Final = 8


class QueueShutDownError(GpuRuntimeError):
    """The queue is shut down; a worker that receives this ends."""


class Lane(IntEnum):
    """A lane is handed out before those after it.

    Keys whose work has begun come first, so that a burst of new keys delays no key that is nearly
    finished. The backlog is what existed before the first change.
    """

    BEGUN = 0
    NEW = 1
    BACKLOG = 2


@attrs.define(slots=True, eq=False)
class _WaitingKeys(Generic[KeyT]):
    """The keys of one lane, and how often another lane was served while they waited."""

    label: str
    keys: OrderedDict[KeyT, None] = attrs.field(factory=OrderedDict)
    passed_over: int = 0


class WorkQueue(Generic[KeyT]):
    """WorkQueue hands out keys. A worker calls `done` with each key that `get` returned.

    Only `get` awaits, so a caller can update its store and call `add` without another task running
    in between.
    """

    def __init__(self, name: str, *, meter: Meter = NullMeter()) -> None:
        self._name = name
        self._meter = meter
        # Dirty keys (those to hand out), each with the loop time at which it became dirty and its
        # lane. A dirty key is in its lane unless a worker has it.
        self._dirty: dict[KeyT, tuple[float, Lane]] = {}
        # Dirty keys that no worker has, by lane.
        self._lanes = tuple(_WaitingKeys[KeyT](lane.name.lower()) for lane in Lane)
        # Keys between get and done. A key that is dirty as well is offered again after done.
        self._processing: set[KeyT] = set()
        # Futures of callers that wait in `get`; cancelled ones may be among them. A woken caller
        # has been removed, and looks for a key again when it runs.
        self._getters: deque[asyncio.Future[None]] = deque()
        self._delays: Delays[KeyT] = Delays(self.add)
        self._backoff: Backoff[KeyT] = Backoff()
        self._is_shut_down = False

    @property
    def name(self) -> str:
        return self._name

    @property
    def depth(self) -> int:
        """Return the number of keys that could be handed out at once."""
        begun, new, backlog = self._lanes
        return len(begun.keys) + len(new.keys) + len(backlog.keys)

    @property
    def oldest_seconds(self) -> float:
        """Return how long the head of a lane has waited, the longest of all lanes.

        A key that changed its lane, or was added while a worker had it, may have waited longer.
        """
        now = loop_time()
        heads = [next(iter(lane.keys)) for lane in self._lanes if lane.keys]
        return max((now - self._dirty[key][0] for key in heads), default=0.0)

    def add(self, key: KeyT, *, lane: Lane = Lane.NEW) -> None:
        """Add a key. Of several lanes given before its hand-out, the first in order counts."""
        if self._is_shut_down:
            return
        dirty = self._dirty.get(key)
        if dirty is None:
            self._meter.count("workqueue_adds_total", queue=self._name)
            self._dirty[key] = (loop_time(), lane)
            if key not in self._processing:
                self._enqueue(key, lane)
            return
        since, held = dirty
        if lane < held:
            self._dirty[key] = (since, lane)
            if key not in self._processing:
                del self._lanes[held].keys[key]
                self._lanes[lane].keys[key] = None

    def add_after(self, key: KeyT, seconds: float) -> None:
        """Add the key after a delay. The earliest delay counts; a hand-out cancels all."""
        if self._is_shut_down:
            return
        if seconds <= 0:
            self.add(key)
        else:
            delay = max(seconds, _LEAST_DELAY_SECONDS)
            self._delays.put(key, loop_time() + delay)

    def add_rate_limited(self, key: KeyT, *, at_least_seconds: float = 0.0) -> float:
        """Add the key after its back-off, or `at_least_seconds` if longer; return the delay."""
        seconds = max(self._backoff.next_delay_seconds(key), at_least_seconds)
        self.add_after(key, seconds)
        return seconds

    def forget(self, key: KeyT) -> None:
        """Reset the back-off: the key's next failure counts as its first."""
        self._backoff.forget(key)

    async def get(self) -> KeyT:
        """Return the next key; raise QueueShutDownError once the queue is shut down."""
        while not self._is_shut_down:
            if self.depth:
                return self._hand_out()
            await self._wait_for_key()
        raise QueueShutDownError(f"queue {self._name} is shut down")

    def done(self, key: KeyT) -> None:
        self._processing.remove(key)
        if key in self._dirty:
            self._enqueue(key, self._dirty[key][1])

    def shut_down(self) -> None:
        """Hand out and add no more keys. A worker may still call done for its key."""
        self._is_shut_down = True
        self._delays.clear()
        self._dirty.clear()
        for lane in self._lanes:
            lane.keys.clear()
        while self._getters:
            self._wake_one()

    def _enqueue(self, key: KeyT, lane: Lane) -> None:
        self._lanes[lane].keys[key] = None
        self._meter.gauge("workqueue_depth", self.depth, queue=self._name)
        self._wake_one()

    def _hand_out(self) -> KeyT:
        lane = self._next_lane()
        key, _ = lane.keys.popitem(last=False)
        since, _ = self._dirty.pop(key)
        self._processing.add(key)
        self._delays.discard(key)
        self._meter.gauge("workqueue_depth", self.depth, queue=self._name)
        waited = loop_time() - since
        self._meter.observe("workqueue_wait_seconds", waited, queue=self._name, lane=lane.label)
        return key

    def _next_lane(self) -> _WaitingKeys[KeyT]:
        """Return the first lane that was passed over too often, else the first with a key."""
        waiting = [lane for lane in self._lanes if lane.keys]
        chosen = waiting[0]
        if len(waiting) > 1:
            starved = (lane for lane in waiting if lane.passed_over >= MOST_PASSED_OVER)
            chosen = next(starved, chosen)
            for lane in waiting:
                lane.passed_over += 1
        chosen.passed_over = 0
        return chosen

    async def _wait_for_key(self) -> None:
        getter = asyncio.get_running_loop().create_future()
        self._getters.append(getter)
        try:
            await getter
        except asyncio.CancelledError:
            if self.depth:
                # This caller may have been woken for a key before it was cancelled: wake another
                # one for it.
                self._wake_one()
            raise

    def _wake_one(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.cancelled():
                getter.set_result(None)
                return
