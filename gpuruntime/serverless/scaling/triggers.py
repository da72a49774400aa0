"""Queue functions on changes in the cluster and on messages of the broker.

What an observation reads is declared beside its reads. A standby queues nothing; a new leader
queues every function as backlog.
"""

from collections.abc import Iterator
from typing import Final

from gpuruntime.bus.session import Message
from gpuruntime.concurrency.clock import loop_time
from gpuruntime.concurrency.leadership import Leadership
from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.operations.lookup.caches import FUNCTION, Cache
from gpuruntime.serverless.scaling.heartbeats import Heartbeats
from gpuruntime.serverless.scaling.history import Histories
from gpuruntime.serverless.scaling.observation import template_state, worker_state
from gpuruntime.serverless.scaling.queue_depths import DepthPoller
from gpuruntime.serverless.scaling.workers import functions_in
from gpuruntime.workqueue.queue import Lane, WorkQueue

LATER_SECONDS: Final = 1.0


class FunctionTriggers:
    """Create it before the informers of its caches run."""

    def __init__(
        self,
        queue: WorkQueue[str],
        leadership: Leadership,
        *,
        units: Cache[GPUUnit],
        stock: Cache[GPUUnit],
        namespace: str,
        depth_poller: DepthPoller,
        beats: Heartbeats,
        histories: Histories,
    ) -> None:
        self._leadership = leadership
        leadership.on_begin(self._add_backlog)
        self._queue = queue
        self._units = units
        self._namespace = namespace
        self._depth_poller = depth_poller
        self._beats = beats
        self._histories = histories
        units.add_handler(self._on_unit)
        stock.add_handler(self._on_stock)

    def _add_backlog(self) -> None:
        for function in functions_in(self._units):
            self._queue.add(function, lane=Lane.BACKLOG)
        self._depth_poller.request_poll()

    def on_wake(self, message: Message) -> None:
        """Wake the function; if it is unknown here, the depths will show its work."""
        function = message.subject.rpartition(".")[2]
        if self._units.store.by_index(FUNCTION, function):
            self._depth_poller.wake(function)
            self.wake(function, is_urgent=not self._histories.touch(function, loop_time()))

    def wake(self, function: str, *, is_urgent: bool) -> None:
        """Queue the function, delayed if not urgent, so that thousands of calls share one
        reconcile.
        """
        if is_urgent:
            self._queue.add(function)
        else:
            self._queue.add_after(function, LATER_SECONDS)

    def on_beat(self, message: Message) -> None:
        whose = self._beats.receive(message, at=loop_time())
        if whose is None:
            return
        for function in self._served(self._units.store.get(Key(self._namespace, whose[1]))):
            self._queue.add(function)

    def _on_unit(self, _: Key, old: GPUUnit | None, new: GPUUnit | None) -> None:
        if not self._leadership.is_leading:
            return
        if template_state(old) != template_state(new):
            for function in {*_declared(old), *_declared(new)}:
                self._queue.add(function)
        if worker_state(old) != worker_state(new):
            for function in {*self._served(old), *self._served(new)}:
                self._queue.add(function)
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._on_gone(old)

    def _on_gone(self, unit: GPUUnit) -> None:
        """Forget the worker's heartbeat and poll the depths: its invocations may wait again."""
        if unit.spec.serverless and unit.spec.is_function_worker:
            self._beats.forget(unit.spec.serverless.requestID, unit.metadata.name)
            self._depth_poller.request_poll()

    def _on_stock(self, _: Key, old: GPUUnit | None, new: GPUUnit | None) -> None:
        if not self._leadership.is_leading or new is None or not provenance.is_free(new):
            return
        was_free = old is not None and provenance.is_free(old)
        waiting = () if was_free else tuple(self._histories.short[new.spec.specName])
        for function in waiting:
            self._queue.add(function)
        if waiting:
            self._depth_poller.request_poll()

    def _served(self, worker: GPUUnit | None) -> Iterator[str]:
        """Yield the function it serves, and the one that its template declares now."""
        function = worker.spec.serverless if worker else None
        if worker is None or function is None or function.workerOf is None:
            return
        yield function.requestID
        owner = self._units.store.get(Key(worker.metadata.namespace, function.workerOf.name))
        if owner is not None and owner.metadata.uid == function.workerOf.uid:
            yield from _declared(owner)


def _declared(unit: GPUUnit | None) -> Iterator[str]:
    if unit is not None and unit.spec.serverless and unit.spec.is_function_template:
        yield unit.spec.serverless.requestID
