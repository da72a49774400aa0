"""The activator's reports on a function: its member of the unit's status, and Events.

Events report that a shortage of workers begins or ends. The manager reports why the function's
unit itself is not Ready.
"""

from typing import Final

import attrs

from gpuruntime.kube.events import Note
from gpuruntime.models.kinds.functions import ServerlessStatus
from gpuruntime.serverless.scaling.worker_plan import (
    Shortage,
    WorkerGroup,
    WorkerPhase,
    WorkerPlan,
)

ENDED: Final = Note("ShortageEnded", "the shortage of workers has ended")
_REPORTED_BY_MANAGER: Final = frozenset(
    {"", Shortage.SUSPENDED, Shortage.NO_TEMPLATE, Shortage.INVALID, Shortage.NO_QUEUE}
)


def status_of(seen: WorkerGroup, plan: WorkerPlan, *, depth: int) -> ServerlessStatus:
    """Return the status, without the wait of the oldest invocation."""
    workers = seen.workers
    return ServerlessStatus(
        desiredWorkers=plan.wanted,
        readyWorkers=sum(worker.phase is WorkerPhase.READY for worker in workers),
        busyWorkers=sum(worker.busy > 0 for worker in workers),
        drainingWorkers=sum(worker.is_leaving for worker in workers),
        depth=depth,
        reason=plan.shortage or "",
    )


def differ_in_amounts_only(one: ServerlessStatus, other: ServerlessStatus) -> bool:
    """Return whether they differ at most in values that change with every call."""
    return _without_amounts(one) == _without_amounts(other)


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


def _without_amounts(status: ServerlessStatus) -> ServerlessStatus:
    return attrs.evolve(status, busyWorkers=0, depth=0, oldestWaitSeconds=0)


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
