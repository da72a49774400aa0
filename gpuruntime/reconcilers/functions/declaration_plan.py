"""Verdict on a unit that declares a function, as a pure function of what was observed.

Such a unit runs no Pod. Ready says that the function can be called. ServerlessReady says that it
has the workers it needs now, as the activator last wrote to the unit's status.
"""

from typing import Final

import attrs

from gpuruntime.models.kinds.functions import ServerlessStatus
from gpuruntime.models.kinds.reasons import ConditionType, FunctionReason, UnitReason
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.pods import Pod
from gpuruntime.reconcilers.unit.pod_failures import unended
from gpuruntime.reconcilers.unit.status import Verdict, stopped_verdict

NO_BROKER: Final = (
    "functions are off: nats.url is empty in the manager's configuration, say there where the "
    "broker is"
)
NOT_LOOKED_AT: Final = "no activator has told yet how many workers are needed: does one run?"
ON_THEIR_WAY: Final = "workers are on their way"
SUCCESSORS_ON_THEIR_WAY: Final = (
    "workers of an earlier template serve until their successors are ready"
)
ENOUGH: Final = "as many workers are ready as are needed now"


def template_verdict(
    unit: GPUUnit, *, owner: GPUUnit | None, knows_broker: bool, pods: tuple[Pod, ...]
) -> Verdict:
    """Return the verdict; `owner` is the oldest of all units that declare the function."""
    verdict = _verdict(unit, owner, knows_broker=knows_broker, pods=pods)
    return attrs.evolve(verdict, workers=_workers_condition(unit, verdict))


def staffing(status: ServerlessStatus | None) -> tuple[FunctionReason, str]:
    """Return reason and message without numbers, which would change with every call."""
    if status is None:
        return FunctionReason.NOT_SCALED_YET, NOT_LOOKED_AT
    missing = f"{status.reason}: {status.message}" if status.message else status.reason
    if status.readyWorkers < status.desiredWorkers:
        return FunctionReason.WORKERS_MISSING, missing or ON_THEIR_WAY
    if status.outdatedWorkers:
        return FunctionReason.WORKERS_OUTDATED, missing or SUCCESSORS_ON_THEIR_WAY
    return FunctionReason.WORKERS_READY, ENOUGH


def _verdict(
    unit: GPUUnit, owner: GPUUnit | None, *, knows_broker: bool, pods: tuple[Pod, ...]
) -> Verdict:
    function = unit.spec.serverless.requestID if unit.spec.serverless else ""
    if owner is not None and owner.metadata.uid != unit.metadata.uid:
        message = (
            f"function {function} belongs to unit {owner.metadata.name}, which is older: "
            "choose another requestID, or delete that unit"
        )
        return Verdict(reason=UnitReason.SERVERLESS_CONFIG_INVALID, message=message)
    if unended(pods):
        return stopped_verdict("the template of a function", pods)
    if unit.spec.suspended:
        message = "suspended: no worker runs, and invocations wait until their deadline"
        return Verdict(reason=UnitReason.SCALED_TO_ZERO, message=message)
    if not knows_broker:
        return Verdict(reason=UnitReason.QUEUE_UNKNOWN, message=NO_BROKER)
    return Verdict(
        reason=UnitReason.FUNCTION_DECLARED, message=f"function {function} takes invocations"
    )


def _workers_condition(unit: GPUUnit, verdict: Verdict) -> Condition:
    reason, message = FunctionReason.NOT_DECLARED, verdict.message
    if verdict.reason is UnitReason.FUNCTION_DECLARED:
        reason, message = staffing(unit.status.serverless)
    return Condition(
        type=ConditionType.SERVERLESS_READY,
        status="True" if reason is FunctionReason.WORKERS_READY else "False",
        reason=reason,
        message=message,
        observedGeneration=unit.metadata.generation,
    )
