"""The observed state of a function: its units, its workers' heartbeats, its queue, and free stock.

Each source that is read here queues the function when it changes: see READS.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

import attrs

from gpuruntime.bus.messages import WorkerState
from gpuruntime.concurrency.clock import loop_time
from gpuruntime.meter import Meter
from gpuruntime.models.encoding.members import shared
from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.functions import Serverless, Update
from gpuruntime.models.kinds.phases import UnitPhase, phase_of
from gpuruntime.models.kinds.reasons import ConditionType, UnitReason
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.conditions import condition_of
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.requests.units import CreateUnit
from gpuruntime.operations.lookup.caches import FREE, FUNCTION, WORKER_OF, Cache
from gpuruntime.operations.lookup.repository import owner_of
from gpuruntime.operations.storage_identity import uids_asked
from gpuruntime.serverless.scaling.heartbeats import LastHeartbeat
from gpuruntime.serverless.scaling.history import FirstSeen, Histories
from gpuruntime.serverless.scaling.plan import MOST_AT_ONCE, Observed, Owner
from gpuruntime.serverless.scaling.worker_plan import (
    SILENT_SECONDS,
    Shortage,
    Worker,
    WorkerGroup,
    WorkerPhase,
    next_names,
    workers_asked_for,
    workers_for,
)
from gpuruntime.serverless.scaling.workers import strays_of
from gpuruntime.strict import validation

# Each source of an observation, and what queues the function when the source changes.
READS: Final[Mapping[str, str]] = {
    "units by function": "a unit's event, if `template_state` differs",
    "units by template": "a unit's event, if `worker_state` differs",
    "units by service": "a unit's event, if `worker_state` differs",
    "unit by name": "none: a name that becomes free is not needed, since numbers do not end",
    "stock by spec": "a stock unit's event, while the plan waits for stock",
    "depth": "each reading that shows work, and the first one after none",
    "heartbeat": "a heartbeat with another state; silence is seen when looking again",
    "session": "the first reading of each session",
}

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
    "update",
)


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


def template_state(unit: GPUUnit | None) -> object:
    """Return what an observation reads of a template, or None if the unit is none."""
    if unit is None or not unit.spec.is_function_template:
        return None
    metadata = unit.metadata
    return (
        metadata.uid,
        metadata.generation,
        metadata.deletionTimestamp,
        uids_asked(unit),
        _readiness(unit),
    )


def worker_state(unit: GPUUnit | None) -> object:
    """Return what an observation reads of a worker, or None if the unit is none."""
    if unit is None or not unit.spec.is_function_worker:
        return None
    metadata = unit.metadata
    return (
        metadata.uid,
        metadata.generation,
        metadata.deletionTimestamp,
        labels.DRAINING in metadata.annotations,
        uids_asked(unit),
        unit.status.timeline.readyAt is not None,
        _readiness(unit),
    )


@attrs.frozen(kw_only=True, slots=True)
class Observer:
    """Reads all that decides on a function. It never waits, so that it sees a single moment."""

    units: Cache[GPUUnit]
    stock: Cache[GPUUnit]
    depth_of: Callable[[str], int | None]
    beat_of: Callable[[str, str], LastHeartbeat | None]
    receiving_since: Callable[[], float | None]
    histories: Histories
    grace_seconds: float
    meter: Meter

    def observe(self, function: str) -> Observed:
        now = loop_time()
        template = owner_of(self.units.store.by_index(FUNCTION, function))
        strays = tuple(strays_of(self.units, function))
        own = self.units.store.by_index(WORKER_OF, template.metadata.uid) if template else ()
        units = (*own, *(worker for _, workers in strays for worker in workers))
        since = now if template else self.histories.undeclared_since(function, now)
        seen_at = self.histories.sightings(function, [unit.metadata.uid for unit in units])
        return Observed(
            function=function,
            owner=self._owner(function, template, own, seen_at, now) if template else None,
            strays=tuple(
                WorkerGroup(
                    limits=_limits(workers[0], function),
                    workers=self._workers(workers, former, seen_at, now),
                    needed=0,
                    free_stock=0,
                    forbidden=Shortage.NO_TEMPLATE,
                )
                for former, workers in strays
            ),
            units={unit.metadata.name: unit for unit in units},
            depth=self.depth_of(function),
            grace_seconds=0.0 if template else since + self.grace_seconds - now,
        )

    def _owner(
        self,
        function: str,
        template: GPUUnit,
        units: Collection[GPUUnit],
        seen_at: FirstSeen,
        now: float,
    ) -> Owner:
        limits, depth = _limits(template, function), self.depth_of(function)
        workers = self._workers(units, template, seen_at, now)
        history = self.histories.of(
            function, template.metadata.uid, workers=workers_asked_for(workers), now=now
        )
        for seconds in history.started(workers, now):
            self.meter.observe("serverless_worker_start_seconds", seconds)
        needed = None if depth is None else workers_for(depth, limits)
        held_seconds = history.held_seconds(now)
        free_stock = self.stock.store.by_index(FREE, template.spec.specName)
        group = WorkerGroup(
            limits=limits,
            workers=workers,
            needed=history.needed(needed, now, limits.idleTimeoutSeconds),
            free_stock=len(free_stock) if held_seconds is None else 0,
            forbidden=forbidden(template),
            replacement_in_seconds=history.replacement_in_seconds(now),
            recreating=_is_recreating(template, limits),
        )
        return Owner(
            template=template,
            workers=group,
            free_names=self._free_names(template, limits.maxWorkers + 1 - len(units)),
            falls_in_seconds=history.falls_in_seconds(now, limits.idleTimeoutSeconds),
            held_seconds=held_seconds,
        )

    def _workers(
        self, units: Iterable[GPUUnit], template: GPUUnit, seen_at: FirstSeen, now: float
    ) -> tuple[Worker, ...]:
        moment = Moment(now=now, receiving_since=self.receiving_since())
        return tuple(
            worker_of(
                unit,
                template,
                self.beat_of(function_of(unit), unit.metadata.name),
                sightings=seen_at,
                moment=moment,
            )
            for unit in units
        )

    def _free_names(self, template: GPUUnit, room: int) -> tuple[str, ...]:
        namespace = template.metadata.namespace
        return next_names(
            template.metadata.name,
            lambda name: self.units.store.get(Key(namespace, name)) is not None,
            max(min(room, MOST_AT_ONCE), 0),
        )


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
        fault=_fault(unit) if phase is WorkerPhase.FAILED else "",
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


def _readiness(unit: GPUUnit) -> object:
    """Return what is read of the condition Ready; only a failure is quoted, so words count."""
    ready = condition_of(unit.status.conditions, ConditionType.READY)
    if ready is None:
        return None
    words = ready.message if phase_of(unit.status.conditions) is UnitPhase.FAILED else ""
    return (ready.status, ready.reason, ready.observedGeneration, words)


def _fault(unit: GPUUnit) -> str:
    ready = condition_of(unit.status.conditions, ConditionType.READY)
    return f"image {unit.spec.image}: {ready.message}" if ready else ""


def _is_recreating(template: GPUUnit, limits: Serverless) -> bool:
    """Return whether an old worker drains before its successor is claimed.

    A storage is mounted by one unit at a time, so a successor could not start beside it.
    """
    return limits.update == Update.RECREATE or bool(template.spec.storageMounts)


def function_of(worker: GPUUnit) -> str:
    return worker.spec.serverless.requestID if worker.spec.serverless else ""


def _limits(unit: GPUUnit, function: str) -> Serverless:
    return unit.spec.serverless or Serverless(requestID=function)
