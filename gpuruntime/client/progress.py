"""How far an object is from the state that a caller waits for, judged from its view alone."""

from datetime import datetime

import attrs

from gpuruntime.models.kinds.invocations import State
from gpuruntime.models.kinds.phases import PoolPhase, StoragePhase, UnitPhase
from gpuruntime.models.kinds.reasons import ConditionType
from gpuruntime.models.kubernetes.conditions import condition_of
from gpuruntime.models.views.operators import Job, JobStatus
from gpuruntime.models.views.pools import PoolView
from gpuruntime.models.views.serverless import InvocationView
from gpuruntime.models.views.storages import StorageView
from gpuruntime.models.views.units import UnitView

_RESUME = "it is suspended: resume it"
_TURN_ON = "it has no accessor: update it with accessor.enabled"


@attrs.frozen(kw_only=True, slots=True)
class Judgement:
    """A judgement; `is_failed` says that the state will not come without a change.

    `since` differs if the state was left and reached again between two polls.
    """

    is_done: bool = False
    is_failed: bool = False
    reason: str = ""
    message: str = ""
    since: datetime | None = None

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}" if self.message else self.reason


def unit_readiness(view: UnitView) -> Judgement:
    if not _is_current(view):
        return _pending(view)
    match view.phase:
        case UnitPhase.READY:
            ready = condition_of(view.conditions, ConditionType.READY)
            return Judgement(is_done=True, since=ready.lastTransitionTime if ready else None)
        case UnitPhase.FAILED:
            return _failed(view)
        case UnitPhase.SUSPENDED if view.suspended:
            return Judgement(is_failed=True, reason=view.reason, message=_RESUME)
        case _:
            return _pending(view)


def unit_suspension(view: UnitView) -> Judgement:
    """Judge a unit; phase Failed does not end the wait, as the unit can still be suspended."""
    if _is_current(view) and view.phase == UnitPhase.SUSPENDED:
        return Judgement(is_done=True)
    if _is_current(view) and not view.suspended:
        message = "no suspension is requested: suspend it"
        return Judgement(is_failed=True, reason=view.reason, message=message)
    return _pending(view)


def storage_readiness(view: StorageView) -> Judgement:
    if _is_current(view) and view.phase == StoragePhase.READY:
        return Judgement(is_done=True)
    if _is_current(view) and view.phase == StoragePhase.FAILED:
        return _failed(view)
    return _pending(view)


def accessor_readiness(view: StorageView) -> Judgement:
    found = condition_of(view.conditions, ConditionType.ACCESSOR_READY)
    reason, message = (found.reason, found.message) if found else ("", "")
    if not view.accessor.enabled:
        return Judgement(is_failed=True, reason="AccessorOff", message=_TURN_ON)
    if _is_current(view) and view.accessorStatus.phase == StoragePhase.READY:
        return Judgement(is_done=True)
    is_failed = _is_current(view) and view.accessorStatus.phase == StoragePhase.FAILED
    return Judgement(is_failed=is_failed, reason=reason, message=message)


def pool_readiness(view: PoolView) -> Judgement:
    """Judge a pool; phase Empty ends the wait, as such a pool is never ready again."""
    if _is_current(view) and view.phase == PoolPhase.READY:
        return Judgement(is_done=True)
    if _is_current(view) and view.phase in (PoolPhase.FAILED, PoolPhase.EMPTY):
        return _failed(view)
    return _pending(view)


def job_readiness(view: Job) -> Judgement:
    """Judge a job: it is done if every requested unit is ready or already consumed."""
    if view.error:
        return Judgement(is_failed=True, reason=view.status, message=view.error)
    if view.status == JobStatus.SUCCEEDED and view.ready + view.consumed >= view.requested:
        return Judgement(is_done=True)
    words = f"{view.created} of {view.requested} created, {view.ready} ready"
    message = f"{words}: {view.message}" if view.message else words
    return Judgement(reason=view.status, message=message)


def invocation_success(view: InvocationView) -> Judgement:
    if view.state == State.SUCCEEDED:
        return Judgement(is_done=True)
    is_under_way = not State(view.state).is_terminal
    reason = view.state if is_under_way else view.failureClass or view.state
    return Judgement(is_failed=not is_under_way, reason=reason, message=invocation_words(view))


def invocation_end(view: InvocationView) -> Judgement:
    """Judge whether it has ended, in any state."""
    is_done = State(view.state).is_terminal
    return Judgement(is_done=is_done, reason=view.state, message=invocation_words(view))


def invocation_words(view: InvocationView) -> str:
    """Return what a queued invocation waits for, else the error of its last attempt."""
    if view.waitingFor is None:
        return view.error.message if view.error else ""
    others = (view.position or 1) - 1
    ahead = f", {others} ahead of it" if others else ""
    return f"{view.waitingFor.reason}: {view.waitingFor.message}{ahead}"


def _is_current(view: UnitView | PoolView | StorageView) -> bool:
    """Return whether the manager has observed the latest change of the spec."""
    return view.observedGeneration >= view.generation


def _failed(view: UnitView | PoolView | StorageView) -> Judgement:
    return Judgement(is_failed=True, reason=view.reason, message=view.message)


def _pending(view: UnitView | PoolView | StorageView) -> Judgement:
    return Judgement(reason=view.reason or view.phase, message=view.message)
