"""Report on a unit: one status patch if it differs, then metrics and an Event."""

from collections.abc import Callable
from datetime import datetime

import attrs
import structlog

from gpuruntime.controller.controller import Result
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import NotFoundError
from gpuruntime.kube.events import EventRecorder, record_note
from gpuruntime.meter import Meter
from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds.units import GPU_UNITS, GPUUnitStatus, Timeline
from gpuruntime.models.kubernetes.workloads import Deployment
from gpuruntime.reconcilers.caches import Caches
from gpuruntime.reconcilers.events import unit_note
from gpuruntime.reconcilers.options import UnitOptions
from gpuruntime.reconcilers.unit.intents import Outcome, Plan, Written
from gpuruntime.reconcilers.unit.observed import Observed
from gpuruntime.reconcilers.unit.plan import conclude
from gpuruntime.reconcilers.unit.status import Verdict, stages_of, status_of

log = structlog.get_logger()


@attrs.frozen(kw_only=True, slots=True)
class UnitReporter:
    client: Client
    caches: Caches
    options: UnitOptions
    recorder: EventRecorder
    now: Callable[[], datetime]
    meter: Meter

    async def report(self, observed: Observed, plan: Plan, outcome: Outcome) -> Result:
        """Write the status that follows from the plan's outcome, and return when to look again."""
        verdict, seconds = conclude(plan, outcome, observed, now=self.now())
        if verdict is not None:
            own = observed.own_deployment
            kept = outcome.deployment if isinstance(outcome, Written) else own
            await self._write(observed, verdict, kept)
        return Result(requeue_after_seconds=seconds)

    async def _write(
        self, observed: Observed, verdict: Verdict, deployment: Deployment | None
    ) -> None:
        unit, is_stock = observed.unit, observed.is_stock
        status = status_of(
            unit,
            verdict,
            deployment=deployment,
            pods=observed.pods,
            options=self.options,
            is_gateway_ready=observed.is_gateway_ready,
            now=self.now(),
        )
        if status == unit.status:
            return
        try:
            written = await self.client.patch(
                GPU_UNITS,
                unit.metadata.key,
                {"status": _patch_of(unit.status, status)},
                resource_version=unit.metadata.resourceVersion,
                subresource="status",
            )
        except NotFoundError:
            # The unit was deleted meanwhile, and its children are collected with it.
            return
        (self.caches.stock if is_stock else self.caches.units).write_through(written)
        if not is_stock:
            self._measure_start(unit.status.timeline, status.timeline)
        if status.phase != unit.status.phase:
            log.info("phase changed", phase=str(status.phase), reason=str(verdict.reason))
        note = unit_note(unit, status, is_stock=is_stock)
        if note is not None:
            record_note(self.recorder, GPU_UNITS, unit, note)

    def _measure_start(self, before: Timeline, now: Timeline) -> None:
        """Measure the stages when the unit becomes ready for the first time."""
        if before.readyAt is not None or now.readyAt is None:
            return
        for stage, seconds in stages_of(now).items():
            self.meter.observe("unit_stage_seconds", seconds, stage=stage)


def _patch_of(before: GPUUnitStatus, after: GPUUnitStatus) -> JsonObject:
    """Return a merge patch, which removes the URLs of ports that are gone.

    It leaves out `serverless`, which the activator writes.
    """
    members = codec.to_json(after)
    gone = dict.fromkeys(before.access.urls.keys() - after.access.urls.keys())
    access: JsonObject = {"slug": after.access.slug, "urls": {**gone, **after.access.urls}}
    if after.access.gatewayReady != before.access.gatewayReady:
        access["gatewayReady"] = after.access.gatewayReady
    others = {name: member for name, member in members.items() if name != "serverless"}
    return {**others, "access": access}
