"""The observed state of a function's workers, from their units and their heartbeats."""

from collections.abc import Mapping
from typing import Any, Final

import attrs

from gpuruntime.bus.messages import WorkerState
from gpuruntime.models.encoding.members import shared
from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.functions import Serverless
from gpuruntime.models.kinds.phases import UnitPhase, phase_of
from gpuruntime.models.kinds.reasons import ConditionType, UnitReason
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.conditions import condition_of
from gpuruntime.models.requests.units import CreateUnit
from gpuruntime.operations.storage_identity import uids_asked
from gpuruntime.serverless.scaling.heartbeats import LastHeartbeat
from gpuruntime.serverless.scaling.plan import SILENT_SECONDS, Shortage, Worker, WorkerPhase
from gpuruntime.strict import validation

# If the manager has no broker, it could not give a worker one.
_REFUSED: Final[Mapping[str, Shortage]] = {
    UnitReason.INVALID_SPEC: Shortage.INVALID,
    UnitReason.STORAGE_MOUNT_INVALID: Shortage.INVALID,
    UnitReason.SERVERLESS_CONFIG_INVALID: Shortage.INVALID,
    UnitReason.OPERATION_CONFLICT: Shortage.INVALID,
    UnitReason.QUEUE_UNKNOWN: Shortage.NO_QUEUE,
}
# A worker keeps the access with which it was created.
_KEPT_BY_WORKERS: Final = ("access",)
# A change of these applies to the function, without new workers.
_LIMITS: Final = (
    "minAvailableCount",
    "maxWorkers",
    "idleTimeoutSeconds",
    "timeoutSeconds",
    "maxAttempts",
)


@attrs.define(slots=True)
class FirstSeen:
    """Since when this leader has seen a state, by uid; moments are loop time."""

    draining: dict[str, float] = attrs.field(factory=dict)
    adrift: dict[str, float] = attrs.field(factory=dict)

    def keep(self, uids: set[str]) -> None:
        for seen in (self.draining, self.adrift):
            for uid in seen.keys() - uids:
                del seen[uid]


@attrs.frozen(kw_only=True, slots=True)
class Moment:
    """The current moment, and since when heartbeats can be received; None if they cannot."""

    now: float
    receiving_since: float | None

    def is_silent(self, heard: LastHeartbeat | None) -> bool:
        """Return whether heartbeats are missing; False while none could have been received."""
        if self.receiving_since is None:
            return False
        last = max(heard.at, self.receiving_since) if heard else self.receiving_since
        return self.now - last >= SILENT_SECONDS

    def is_fresh(self, heard: LastHeartbeat) -> bool:
        """Return whether the heartbeat is recent and a newer one would have been received."""
        return self.receiving_since is not None and self.now - heard.at < SILENT_SECONDS


def worker_of(
    unit: GPUUnit,
    template: GPUUnit,
    heard: LastHeartbeat | None,
    *,
    sightings: FirstSeen,
    moment: Moment,
) -> Worker:
    """Return the worker of this unit, and note in `sightings` what is new about it."""
    is_silent = moment.is_silent(heard)
    has_withdrawn = heard is not None and _has_withdrawn(unit, heard, moment)
    phase = _phase(unit, is_silent=is_silent, has_withdrawn=has_withdrawn)
    since = _since(phase, unit.metadata.uid, sightings, moment)
    return Worker(
        name=unit.metadata.name,
        phase=phase,
        is_current=is_current(unit, template),
        has_drained=heard is not None and heard.state is WorkerState.DRAINED,
        has_withdrawn=has_withdrawn,
        is_silent=is_silent,
        busy=heard.busy if heard and not is_silent else 0,
        since_seconds=moment.now - since,
    )


def is_current(worker: GPUUnit, template: GPUUnit) -> bool:
    """Return whether the template would create the same worker now, limits aside."""
    return template.spec.serverless is not None and _workload(worker) == _workload(template)


def _workload(unit: GPUUnit) -> tuple[dict[str, Any], dict[str, Any], object]:
    """Return all that a worker takes over, but what applies without a new worker."""
    function = unit.spec.serverless
    return (
        _without(shared(unit.spec, CreateUnit), (*_KEPT_BY_WORKERS, "serverless")),
        _without(shared(function, Serverless), (*_LIMITS, "workerOf")) if function else {},
        uids_asked(unit),
    )


def _without(members: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if name not in names}


def forbidden(template: GPUUnit) -> Shortage | None:
    """Return why it may have no workers, by our own checks and by the manager's condition."""
    if provenance.is_terminating(template):
        return Shortage.NO_TEMPLATE
    if validation.unit_problems(template):
        return Shortage.INVALID
    ready = condition_of(template.status.conditions, ConditionType.READY)
    if ready is not None and ready.observedGeneration == template.metadata.generation:
        refusal = _REFUSED.get(ready.reason)
        if refusal is not None:
            return refusal
    return Shortage.SUSPENDED if template.spec.suspended else None


def _has_withdrawn(unit: GPUUnit, heard: LastHeartbeat, moment: Moment) -> bool:
    """Return whether the worker reports that it takes no more invocations."""
    is_draining = heard.state in (WorkerState.DRAINING, WorkerState.DRAINED)
    return is_draining and heard.uid == unit.metadata.uid and moment.is_fresh(heard)


def _phase(unit: GPUUnit, *, is_silent: bool, has_withdrawn: bool) -> WorkerPhase:
    """Return the phase. The drain mark is on the unit, so that the next leader sees it."""
    if provenance.is_terminating(unit):
        return WorkerPhase.GONE
    if labels.DRAINING in unit.metadata.annotations:
        return WorkerPhase.DRAINING
    phase = phase_of(unit.status.conditions)
    if phase is UnitPhase.FAILED:
        return WorkerPhase.FAILED
    if has_withdrawn:
        return WorkerPhase.ADRIFT
    if phase is UnitPhase.READY:
        return WorkerPhase.READY
    return WorkerPhase.ADRIFT if _is_adrift(unit, is_silent) else WorkerPhase.STARTING


def _is_adrift(unit: GPUUnit, is_silent: bool) -> bool:
    """Return whether it was lost; a worker that never was ready may still be starting."""
    ready = condition_of(unit.status.conditions, ConditionType.READY)
    if ready is not None and ready.reason == UnitReason.POD_UNSCHEDULABLE:
        return True
    return is_silent and unit.status.timeline.readyAt is not None


def _since(phase: WorkerPhase, uid: str, sightings: FirstSeen, moment: Moment) -> float:
    if phase is not WorkerPhase.ADRIFT:
        sightings.adrift.pop(uid, None)
    if phase is WorkerPhase.ADRIFT:
        return sightings.adrift.setdefault(uid, moment.now)
    if phase is WorkerPhase.DRAINING:
        return sightings.draining.setdefault(uid, moment.now)
    return moment.now
