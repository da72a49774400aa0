"""The activator's reports on a function: its member of the unit's status, and Events.

Events report that a shortage of workers begins or ends. The manager reports why the function's
unit itself is not Ready.
"""

from collections.abc import Mapping
from typing import Final

import attrs

from gpuruntime.kube.events import Note
from gpuruntime.models.kinds.functions import LONGEST_MESSAGE, ServerlessStatus
from gpuruntime.serverless.scaling.worker_plan import (
    Shortage,
    Worker,
    WorkerGroup,
    WorkerPhase,
    WorkerPlan,
)

ENDED: Final = Note("ShortageEnded", "the shortage of workers has ended")
_EVENTS: Final[Mapping[str, str]] = {
    Shortage.CAPACITY: "InsufficientCapacity",
    Shortage.WORKER_FAILED: "WorkerFailed",
    Shortage.WORKER_LOST: "WorkerLost",
}
_REPORTED_BY_MANAGER: Final = frozenset(
    {"", Shortage.SUSPENDED, Shortage.NO_TEMPLATE, Shortage.INVALID, Shortage.NO_QUEUE}
)


def status_of(seen: WorkerGroup, plan: WorkerPlan, *, depth: int) -> ServerlessStatus:
    """Return the status, without the wait of the oldest invocation and without words."""
    workers = seen.workers
    return ServerlessStatus(
        desiredWorkers=plan.wanted,
        readyWorkers=sum(worker.phase is WorkerPhase.READY for worker in workers),
        busyWorkers=sum(worker.busy > 0 for worker in workers),
        drainingWorkers=sum(worker.is_leaving for worker in workers),
        outdatedWorkers=sum(not worker.is_current for worker in seen.staying),
        depth=depth,
        reason=plan.shortage or "",
    )


def words_for(reason: str, seen: WorkerGroup, *, spec_name: str) -> str:
    """Return in words why workers are missing, or nothing if the manager reports it."""
    if reason in _REPORTED_BY_MANAGER:
        return ""
    return _words_of(reason, seen, spec_name)[:LONGEST_MESSAGE]


def differ_in_amounts_only(one: ServerlessStatus, other: ServerlessStatus) -> bool:
    """Return whether they differ at most in values that change with every call."""
    return _without_amounts(one) == _without_amounts(other)


def function_note(before: ServerlessStatus | None, after: ServerlessStatus) -> Note | None:
    """Return the Event for the step from one status to the next, or None."""
    old, new = before.reason if before else "", after.reason
    if new == old:
        return None
    if new in _REPORTED_BY_MANAGER:
        return None if old in _REPORTED_BY_MANAGER or new else ENDED
    return Note(_EVENTS.get(new, "ClaimFailed"), after.message, is_warning=True)


def _without_amounts(status: ServerlessStatus) -> ServerlessStatus:
    return attrs.evolve(status, busyWorkers=0, depth=0, oldestWaitSeconds=0)


def _words_of(reason: str, seen: WorkerGroup, spec_name: str) -> str:
    match reason:
        case Shortage.CAPACITY:
            outdated = [worker.name for worker in seen.staying if not worker.is_current]
            kept = f" for the successor of {min(outdated)}, which stays" if outdated else ""
            return f"no ready stock of {spec_name}{kept}"
        case Shortage.WORKER_FAILED:
            failing = min(filter(_has_failed, seen.staying), key=_fault_order, default=None)
            named = f"worker {failing.name}: {failing.fault}" if failing else "a worker fails"
            return f"{named}: until one is ready no further stock is claimed"
        case Shortage.WORKER_LOST:
            return "a worker has no node that accepts it, or its node is silent"
        case _:
            return "a claim of stock was refused, or its outcome is not known yet"


def _has_failed(worker: Worker) -> bool:
    return worker.phase is WorkerPhase.FAILED


def _fault_order(worker: Worker) -> tuple[bool, str]:
    """Sort workers of the present template first, since theirs is the fault to correct."""
    return (not worker.is_current, worker.name)
