"""Reports on a function: writes the status of the unit that declares it, and its Events."""

from collections.abc import Callable
from datetime import datetime
from typing import Final

import attrs
import structlog

from gpuruntime.bus.errors import BusError
from gpuruntime.concurrency.clock import loop_time
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import NotFoundError
from gpuruntime.kube.events import EventRecorder, record_note
from gpuruntime.models.encoding import codec
from gpuruntime.models.kinds.functions import ServerlessStatus
from gpuruntime.models.kinds.units import GPU_UNITS, GPUUnit
from gpuruntime.operations.lookup.caches import Cache
from gpuruntime.serverless.scaling.history import FunctionHistory, Histories
from gpuruntime.serverless.scaling.plan import Observed, Owner, Plan
from gpuruntime.serverless.scaling.queue_depths import Depths
from gpuruntime.serverless.scaling.status import differ_in_amounts_only, function_note, words_for

log = structlog.get_logger()

COMPONENT: Final = "gpuruntime-activator"
# How often mere amounts of work are written to the status and requested from the broker.
PERIOD_SECONDS: Final = 10.0


@attrs.frozen(kw_only=True, slots=True)
class Reporter:
    """Writes statuses. Only it reads how long the oldest invocation waits.

    No plan depends on that wait, so a cold start is not delayed until the broker has answered.
    """

    client: Client
    units: Cache[GPUUnit]
    depths: Depths
    recorder: EventRecorder
    histories: Histories
    now: Callable[[], datetime]

    async def report(self, seen: Observed, plan: Plan) -> float | None:
        """Write the status if it differs; return in how many seconds to report again, or None.

        While workers are busy it is reported again, since no event says when they become idle.
        """
        if seen.owner is None or plan.status is None:
            return None
        template = seen.owner.template
        history = self.histories.declared[seen.function]
        oldest_wait_seconds = await self._oldest_wait_seconds(
            seen.owner, plan.status.depth, history
        )
        reason = history.refusal(loop_time()) or plan.status.reason
        history.status = status = attrs.evolve(
            plan.status,
            oldestWaitSeconds=int(oldest_wait_seconds),
            reason=reason,
            message=words_for(reason, seen.owner.workers, spec_name=template.spec.specName),
        )
        latest = self.units.store.get(template.metadata.key)
        if latest is None or latest.metadata.uid != template.metadata.uid:
            return None
        before = latest.status.serverless
        again = PERIOD_SECONDS if status.busyWorkers else None
        if status == before:
            return again
        wait = history.tells_in_seconds(loop_time(), PERIOD_SECONDS)
        if wait and before and differ_in_amounts_only(before, status):
            return wait
        await self._write(latest, status)
        history.told_at = loop_time()
        note = function_note(before, status)
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

    async def _oldest_wait_seconds(
        self, owner: Owner, depth: int, history: FunctionHistory
    ) -> float:
        if not depth:
            history.oldest_at = None
        elif history.asks_for_oldest(loop_time(), PERIOD_SECONDS):
            try:
                busy = sum(worker.busy for worker in owner.workers.workers)
                function = owner.workers.limits.requestID
                history.oldest_at = (await self.depths.backlog(function, busy=busy)).oldest_at
            except BusError as error:
                log.debug("oldest wait unknown", reason=str(error))
        return history.oldest_wait_seconds(self.now())
