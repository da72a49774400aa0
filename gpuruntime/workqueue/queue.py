"""The work queue: deduplicated keys, each handed out to at most one worker at a time.

It keeps the contract of client-go's work queues. A key added while no worker has it is handed out
once, no matter how often it was added. A key added while a worker has it is handed out again after
`done`. So no change is missed, and no key is processed twice at once. Everything runs on one loop;
the queue is not thread-safe.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import Generic, TypeVar

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.errors import GpuRuntimeError
from gpuruntime.meter import Meter, NullMeter
from gpuruntime.workqueue.backoff import Backoff
from gpuruntime.workqueue.delays import Delays

KeyT = TypeVar("KeyT", bound=Hashable)

# Rounding may leave a tiny remainder of a delay. Without this minimum, the key would be due at
# once, find the same remainder, and loop for ever.
_LEAST_DELAY_SECONDS = 0.001


class QueueShutDownError(GpuRuntimeError):
    """The queue is shut down; a worker that receives this ends."""


class WorkQueue(Generic[KeyT]):
    """WorkQueue hands out keys. A worker calls `done` with each key that `get` returned.

    Only `get` awaits, so a caller can update its store and call `add` without another task running
    in between.
    """

    def __init__(self, name: str, *, meter: Meter = NullMeter()) -> None:
        self._name = name
        self._meter = meter
        # Dirty keys (those to hand out), with the loop time at which each became dirty. Each is in
        # exactly one of ready, backlog and processing.
        self._dirty: dict[KeyT, float] = {}
        # Dirty keys that no worker has. Ready keys are handed out before the backlog.
        self._ready: OrderedDict[KeyT, None] = OrderedDict()
        self._backlog: OrderedDict[KeyT, None] = OrderedDict()
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
        return len(self._ready) + len(self._backlog)

    @property
    def oldest_seconds(self) -> float:
        """Return how long the head of a lane has waited, the longer of the two.

        A key promoted from the backlog, or added while a worker had it, may have waited longer.
        """
        now = loop_time()
        heads = [next(iter(lane)) for lane in (self._ready, self._backlog) if lane]
        return max((now - self._dirty[key] for key in heads), default=0.0)

    def add(self, key: KeyT, *, is_backlog: bool = False) -> None:
        """Add a key. With `is_backlog`, it waits behind all others.

        Adding it again without the flag ends that. While a worker has the key, the flag has no
        effect.
        """
        if self._is_shut_down:
            return
        if key not in self._dirty:
            self._meter.count("workqueue_adds_total", queue=self._name)
            self._dirty[key] = loop_time()
            if key not in self._processing:
                self._enqueue(key, self._backlog if is_backlog else self._ready)
        elif key in self._backlog and not is_backlog:
            del self._backlog[key]
            self._ready[key] = None

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
            if self._ready:
                return self._hand_out(self._ready, "new")
            if self._backlog:
                return self._hand_out(self._backlog, "backlog")
            await self._wait_for_key()
        raise QueueShutDownError(f"queue {self._name} is shut down")

    def done(self, key: KeyT) -> None:
        self._processing.remove(key)
        if key in self._dirty:
            self._enqueue(key, self._ready)

    def shut_down(self) -> None:
        """Hand out and add no more keys. A worker may still call done for its key."""
        self._is_shut_down = True
        self._delays.clear()
        self._dirty.clear()
        self._ready.clear()
        self._backlog.clear()
        while self._getters:
            self._wake_one()

    def _enqueue(self, key: KeyT, lane: OrderedDict[KeyT, None]) -> None:
        lane[key] = None
        self._meter.gauge("workqueue_depth", self.depth, queue=self._name)
        self._wake_one()

    def _hand_out(self, lane: OrderedDict[KeyT, None], label: str) -> KeyT:
        key, _ = lane.popitem(last=False)
        waited = loop_time() - self._dirty.pop(key)
        self._processing.add(key)
        self._delays.discard(key)
        self._meter.gauge("workqueue_depth", self.depth, queue=self._name)
        self._meter.observe("workqueue_wait_seconds", waited, queue=self._name, lane=label)
        return key

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
