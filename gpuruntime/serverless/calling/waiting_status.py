"""Why a queued invocation has no worker yet, as a pure function of what was observed."""

from collections.abc import Collection
from typing import Final

from gpuruntime.bus.messages import Record
from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.functions import ServerlessStatus
from gpuruntime.models.kinds.invocations import State, WaitingFor
from gpuruntime.models.kinds.reasons import ConditionType
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.conditions import condition_of
from gpuruntime.serverless.scaling.worker_plan import Shortage

NOT_SCALED: Final = "no activator has reported yet how many workers are needed: does one run?"


def waiting_for(
    record: Record, template: GPUUnit | None, workers: Collection[GPUUnit]
) -> WaitingFor | None:
    """Return why no worker has the invocation, or None if it is not queued.

    `template` is the unit that declares the function, and `workers` are that unit's.
    """
    if record.state is not State.QUEUED:
        return None
    if template is None:
        words = f"no unit declares function {record.serverlessRequestID}"
        return WaitingFor(reason=Shortage.NO_TEMPLATE, message=words)
    if template.spec.suspended:
        words = "the function is suspended, and has no workers until it is resumed"
        return WaitingFor(reason=Shortage.SUSPENDED, message=words)
    status = template.status.serverless
    if status is None:
        return WaitingFor(reason="not_scaled_yet", message=NOT_SCALED)
    return _without_worker(template, status, workers) or _with_workers(record, status)


def _without_worker(
    template: GPUUnit, status: ServerlessStatus, workers: Collection[GPUUnit]
) -> WaitingFor | None:
    if status.readyWorkers:
        return None
    if status.reason:
        words = status.message or _message_of(template)
        return WaitingFor(reason=status.reason, message=words)
    starting = min(filter(_is_staying, workers), key=lambda each: each.metadata.name, default=None)
    if starting is None:
        return WaitingFor(reason="worker_starting", message="a worker is being claimed")
    words = f"worker {starting.metadata.name} starts: {_message_of(starting)}"
    return WaitingFor(reason="worker_starting", message=words)


def _with_workers(record: Record, status: ServerlessStatus) -> WaitingFor:
    if record.error:
        return WaitingFor(reason="next_attempt", message=record.error)
    busy = "every ready worker is busy"
    if status.readyWorkers < status.desiredWorkers and status.reason:
        return WaitingFor(reason=status.reason, message=f"{busy}; {status.message}")
    return WaitingFor(reason="workers_busy", message=busy)


def _is_staying(worker: GPUUnit) -> bool:
    is_draining = labels.DRAINING in worker.metadata.annotations
    return not is_draining and not provenance.is_terminating(worker)


def _message_of(unit: GPUUnit) -> str:
    ready = condition_of(unit.status.conditions, ConditionType.READY)
    return ready.message if ready and ready.message else "the manager has not reported on it yet"
