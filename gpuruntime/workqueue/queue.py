"""The work queue: keys in, keys out, each with at most one worker at a time.

The contract is that of Kubernetes' own work queues. A key that is added while nobody works on it
is handed out once, however often it was added. A key that is added while somebody works on it is
handed out again after `done`: no change is ever missed, and none is worked on twice at once.
Everything happens on one loop; nothing here is shared with other threads.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import Generic, TypeVar

from gpuruntime.errors import GpuRuntimeError
from gpuruntime.meter import Meter, NullMeter
from gpuruntime.workqueue.backoff import Backoff
from gpuruntime.workqueue.delays import Delays

KeyT = TypeVar("KeyT", bound=Hashable)

# A remainder that only rounding leaves has to pass as well: put at the present moment, the key
# would come back without any time gone, and be given the same remainder for ever.
_LEAST_DELAY_SECONDS = 0.001


class QueueShutDownError(GpuRuntimeError):
    """No more keys: whoever works ends."""


class WorkQueue(Generic[KeyT]):
    """Whoever calls `get` calls `done` with the same key, whatever became of the work.

    All methods but `get` run without a pause, so that a store's update and its `add` are one step.
    """

    def __init__(self, name: str, *, meter: Meter = NullMeter()) -> None:
        self._name = name
        self._meter = meter
        # Each key that has to be handed out, with the moment since when. It is in exactly one
        # of ready, backlog and processing.
        self._dirty: dict[KeyT, float] = {}
        # Dirty keys that nobody works on: the ready ones go before the backlog.
        self._ready: OrderedDict[KeyT, None] = OrderedDict()
        self._backlog: OrderedDict[KeyT, None] = OrderedDict()
        # Keys between get and done. One that is dirty as well comes back after done.
        self._processing: set[KeyT] = set()
        # Those who wait in get, and cancelled ones. A woken one has left; it looks again when it
        # runs.
        self._getters: deque[asyncio.Future[None]] = deque()
        self._delays: Delays[KeyT] = Delays(self.add)
        self._backoff: Backoff[KeyT] = Backoff()
        self._is_shut_down = False

    @property
    def name(self) -> str:
        return self._name

    @property
    def depth(self) -> int:
        """Keys that could be handed out at once."""
        return len(self._ready) + len(self._backlog)

    @property
    def oldest_seconds(self) -> float:
        """How long the next key of either lane has waited: no other has waited much longer."""
        now = asyncio.get_running_loop().time()
        heads = [next(iter(lane)) for lane in (self._ready, self._backlog) if lane]
        return max((now - self._dirty[key] for key in heads), default=0.0)

    def add(self, key: KeyT, *, is_backlog: bool = False) -> None:
        """A key of the backlog waits behind all others, until it is added as anything else."""
        if self._is_shut_down:
            return
        if key not in self._dirty:
            self._meter.count("workqueue_adds_total", queue=self._name)
            self._dirty[key] = asyncio.get_running_loop().time()
            if key not in self._processing:
                self._offer(key, self._backlog if is_backlog else self._ready)
        elif key in self._backlog and not is_backlog:
            del self._backlog[key]
            self._ready[key] = None

    def add_after(self, key: KeyT, seconds: float) -> None:
        """Of several delays the earlier one wins, and a hand-out in the meantime ends them all."""
        if self._is_shut_down:
            return
        if seconds <= 0:
            self.add(key)
        else:
            delay = max(seconds, _LEAST_DELAY_SECONDS)
            self._delays.put(key, asyncio.get_running_loop().time() + delay)

    def add_rate_limited(self, key: KeyT, *, at_least_seconds: float = 0.0) -> float:
        """Adds the key after its back-off, and returns that delay."""
        seconds = max(self._backoff.next_delay_seconds(key), at_least_seconds)
        self.add_after(key, seconds)
        return seconds

    def forget(self, key: KeyT) -> None:
        """The key's next failure is its first one again."""
        self._backoff.forget(key)

    async def get(self) -> KeyT:
        """The next key; raises QueueShutDownError as soon as the queue is shut down."""
        while not self._is_shut_down:
            if self._ready:
                return self._hand_out(self._ready, "new")
            if self._backlog:
                return self._hand_out(self._backlog, "backlog")
            await self._wait_for_offer()
        raise QueueShutDownError(f"queue {self._name} is shut down")

    def done(self, key: KeyT) -> None:
        self._processing.remove(key)
        if key in self._dirty:
            self._offer(key, self._ready)

    def shut_down(self) -> None:
        """Nothing is handed out or added any more; keys in hand may still be done."""
        self._is_shut_down = True
        self._delays.clear()
        self._dirty.clear()
        self._ready.clear()
        self._backlog.clear()
        while self._getters:
            self._wake_one()

    def _offer(self, key: KeyT, lane: OrderedDict[KeyT, None]) -> None:
        lane[key] = None
        self._meter.gauge("workqueue_depth", self.depth, queue=self._name)
        self._wake_one()

    def _hand_out(self, lane: OrderedDict[KeyT, None], label: str) -> KeyT:
        key, _ = lane.popitem(last=False)
        waited = asyncio.get_running_loop().time() - self._dirty.pop(key)
        self._processing.add(key)
        self._delays.discard(key)
        self._meter.gauge("workqueue_depth", self.depth, queue=self._name)
        self._meter.observe("workqueue_wait_seconds", waited, queue=self._name, lane=label)
        return key

    async def _wait_for_offer(self) -> None:
        getter = asyncio.get_running_loop().create_future()
        self._getters.append(getter)
        try:
            await getter
        except asyncio.CancelledError:
            if self.depth:
                # Perhaps woken before it was cancelled: then the offer is somebody else's now.
                self._wake_one()
            raise

    def _wake_one(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.cancelled():
                getter.set_result(None)
                return
