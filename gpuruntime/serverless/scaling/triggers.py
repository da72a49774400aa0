"""Queue functions on changes in the cluster and on messages of the broker.

A standby queues nothing; a new leader queues every function as backlog.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Final

from gpuruntime.bus.session import Message
from gpuruntime.concurrency.clock import loop_time
from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.reasons import ConditionType
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.conditions import condition_of
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.operations.lookup.caches import FUNCTION, Cache
from gpuruntime.serverless.scaling.heartbeats import Heartbeats
from gpuruntime.serverless.scaling.queue_depths import DepthPoller
from gpuruntime.serverless.scaling.workers import functions_in
from gpuruntime.workqueue.queue import Lane, WorkQueue

LATER_SECONDS: Final = 1.0


class FunctionTriggers:
    """Create it before the informers of its caches run.

    `short_of` returns the functions that wait for stock of a specName. `touch` notes a call of a
    function, and returns whether workers are wanted for it already.
    """

    def __init__(
        self,
        queue: WorkQueue[str],
        *,
        units: Cache[GPUUnit],
        stock: Cache[GPUUnit],
        namespace: str,
        depth_poller: DepthPoller,
        beats: Heartbeats,
        short_of: Callable[[str], Collection[str]],
        touch: Callable[[str], bool],
    ) -> None:
        self._is_leading = False
        self._queue = queue
        self._units = units
        self._namespace = namespace
        self._depth_poller = depth_poller
        self._beats = beats
        self._short_of = short_of
        self._touch = touch
        units.add_handler(self._on_unit)
        stock.add_handler(self._on_stock)

    def begin(self) -> None:
        """Start queueing, because this process leads now."""
        self._is_leading = True
        for function in functions_in(self._units):
            self._queue.add(function, lane=Lane.BACKLOG)
        self._depth_poller.request_poll()

    def on_wake(self, message: Message) -> None:
        """Wake the function; if it is unknown here, the depths will show its work."""
        function = message.subject.rpartition(".")[2]
        if self._units.store.by_index(FUNCTION, function):
            self._depth_poller.wake(function)
            self.wake(function, is_urgent=not self._touch(function))

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
        if not self._is_leading:
            return
        if _template_state(old) != _template_state(new):
            for function in {*_declared(old), *_declared(new)}:
                self._queue.add(function)
        if _worker_state(old) != _worker_state(new):
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
        if not self._is_leading or new is None or not provenance.is_free(new):
            return
        waiting = () if old and provenance.is_free(old) else self._short_of(new.spec.specName)
        for function in tuple(waiting):
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


def _template_state(unit: GPUUnit | None) -> object:
    """Return what matters of a template: its spec's version and the manager's condition."""
    if unit is None or not unit.spec.is_function_template:
        return None
    metadata = unit.metadata
    return (metadata.uid, metadata.generation, metadata.deletionTimestamp, _reason(unit))


def _worker_state(unit: GPUUnit | None) -> object:
    """Return what matters of a worker: its condition, deletion and drain mark."""
    if unit is None or not unit.spec.is_function_worker:
        return None
    metadata = unit.metadata
    is_draining = labels.DRAINING in metadata.annotations
    return (metadata.uid, metadata.deletionTimestamp, is_draining, _reason(unit))


def _reason(unit: GPUUnit) -> object:
    ready = condition_of(unit.status.conditions, ConditionType.READY)
    return (ready.status, ready.reason) if ready else None
