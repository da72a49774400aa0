"""Reports on a function: the status of the unit that declares it, and Events.

Events report that a shortage of workers begins or ends. The manager reports why the function's
unit itself is not Ready.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Final

import attrs
import structlog

from gpuruntime.bus.errors import BusError
from gpuruntime.concurrency.clock import loop_time
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import NotFoundError
from gpuruntime.kube.events import EventRecorder, Note, record_note
from gpuruntime.models.encoding import codec
from gpuruntime.models.kinds.functions import ServerlessStatus
from gpuruntime.models.kinds.units import GPU_UNITS, GPUUnit
from gpuruntime.operations.lookup.caches import Cache
from gpuruntime.serverless.scaling.history import FunctionHistory
from gpuruntime.serverless.scaling.plan import Observed, Plan, Shortage, status_of
from gpuruntime.serverless.scaling.queue_depths import Depths

log = structlog.get_logger()

COMPONENT: Final = "gpuruntime-activator"
ENDED: Final = Note("ShortageEnded", "the shortage of workers has ended")
_REPORTED_BY_MANAGER: Final = frozenset(
    {"", Shortage.SUSPENDED, Shortage.NO_TEMPLATE, Shortage.INVALID, Shortage.NO_QUEUE}
)
# How often mere amounts of work are written to the status and requested from the broker.
PERIOD_SECONDS: Final = 10.0


@attrs.frozen(kw_only=True, slots=True)
class FunctionStatus:
    client: Client
    units: Cache[GPUUnit]
    depths: Depths
    recorder: EventRecorder
    now: Callable[[], datetime]

    async def report(
        self, template: GPUUnit, seen: Observed, plan: Plan, memory: FunctionHistory, *, depth: int
    ) -> float | None:
        """Write the status if it differs; return in how many seconds to report again, or None.

        While workers are busy it is reported again, since no event says when they become idle.
        """
        memory.status = status_of(
            seen,
            plan,
            depth=depth,
            oldest_wait_seconds=await self._oldest_wait(seen, depth, memory),
            failure=memory.failure if memory.held_seconds(loop_time()) else "",
        )
        latest = self.units.store.get(template.metadata.key)
        if latest is None or latest.metadata.uid != template.metadata.uid:
            return None
        before = latest.status.serverless
        again = PERIOD_SECONDS if memory.status.busyWorkers else None
        if memory.status == before:
            return again
        wait = memory.tells_in_seconds(loop_time(), PERIOD_SECONDS)
        if wait and before and _without_amounts(before) == _without_amounts(memory.status):
            return wait
        await self._write(latest, memory.status)
        memory.told_at = loop_time()
        note = function_note(before, memory.status, spec_name=template.spec.specName)
        if note is not None:
            record_note(self.recorder, GPU_UNITS, template, note)
        return again

    async def _write(self, template: GPUUnit, status: ServerlessStatus) -> None:
        """Write the activator's member of the status, at the version that was read.

        The manager writes all other members in the same way. If both write at once, one gets a
        conflict and retries, so neither overwrites the other.
        """
        try:
            written = await self.client.patch(
                GPU_UNITS,
                template.metadata.key,
                {"status": {"serverless": codec.to_json(status)}},
                resource_version=template.metadata.resourceVersion,
                subresource="status",
            )
        except NotFoundError:
            return
        self.units.write_through(written)

    async def _oldest_wait(self, seen: Observed, depth: int, memory: FunctionHistory) -> float:
        if not depth:
            memory.oldest_at = None
        elif memory.asks_for_oldest(loop_time(), PERIOD_SECONDS):
            try:
                busy = sum(worker.busy for worker in seen.workers)
                backlog = await self.depths.backlog(seen.limits.requestID, busy=busy)
                memory.oldest_at = backlog.oldest_at
            except BusError as error:
                log.debug("oldest wait unknown", reason=str(error))
        return memory.oldest_wait_seconds(self.now())


def _without_amounts(status: ServerlessStatus) -> ServerlessStatus:
    """Return the status without the values that change with every call."""
    return attrs.evolve(status, busyWorkers=0, depth=0, oldestWaitSeconds=0)


def function_note(
    before: ServerlessStatus | None, after: ServerlessStatus, *, spec_name: str
) -> Note | None:
    """Return the Event for the step from one status to the next, or None."""
    old, new = before.reason if before else "", after.reason
    if new == old:
        return None
    if new in _REPORTED_BY_MANAGER:
        return None if old in _REPORTED_BY_MANAGER or new else ENDED
    return _shortage(new, spec_name)


def _shortage(reason: str, spec_name: str) -> Note:
    match reason:
        case Shortage.CAPACITY:
            words = f"workers are missing: no ready stock of {spec_name} is left"
            return Note("InsufficientCapacity", words, is_warning=True)
        case Shortage.WORKER_FAILED:
            words = "a worker's container fails: until one is ready no further stock is claimed"
            return Note("WorkerFailed", words, is_warning=True)
        case Shortage.WORKER_LOST:
            words = "a worker has no node that accepts it, or its node is silent"
            return Note("WorkerLost", words, is_warning=True)
        case _:
            words = f"workers are missing: a claim of stock ended with {reason}"
            return Note("ClaimFailed", words, is_warning=True)
