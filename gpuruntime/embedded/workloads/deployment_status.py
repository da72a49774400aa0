"""The status of a Deployment, derived from its ReplicaSets, its last status and the time."""

from datetime import datetime, timedelta
from typing import Final

import attrs

from gpuruntime.embedded.kinds.workload_objects import (
    Conditions,
    DeploymentStatus,
    WorkloadCondition,
    find_condition,
    updated_conditions,
    without_condition,
)
from gpuruntime.embedded.workloads.deployment_plan import Observed, max_unavailable

AVAILABLE: Final = "Available"
PROGRESSING: Final = "Progressing"
REPLICA_FAILURE: Final = "ReplicaFailure"
NO_DEADLINE: Final = 2**31 - 1


def deployment_status(observed: Observed, *, now: datetime, created: str = "") -> DeploymentStatus:
    """Return the status; `created` names a ReplicaSet created in this pass."""
    deployment = observed.deployment
    counted = _counted(observed)
    conditions = updated_conditions(
        deployment.status.conditions, _available(observed, counted), now=now
    )
    progressing = _created(created) if created else _progressing(observed, counted, now)
    if progressing is not None:
        conditions = updated_conditions(conditions, progressing, now=now)
    return attrs.evolve(counted, conditions=_with_failure(conditions, observed))


def seconds_to_deadline(observed: Observed, *, now: datetime) -> float | None:
    """Return the seconds until a rollout without progress is late, or None if none is due."""
    deployment = observed.deployment
    progressing = find_condition(deployment.status.conditions, PROGRESSING)
    if (
        progressing is None
        or progressing.lastUpdateTime is None
        or progressing.reason == "NewReplicaSetAvailable"
        or not progressing.is_true
        or deployment.spec.progressDeadlineSeconds == NO_DEADLINE
    ):
        return None
    due_at = progressing.lastUpdateTime + timedelta(
        seconds=deployment.spec.progressDeadlineSeconds
    )
    return max(0.0, (due_at - now).total_seconds()) + 1.0


def _counted(observed: Observed) -> DeploymentStatus:
    everything, new = observed.replica_sets, observed.new
    available = sum(each.status.availableReplicas for each in everything)
    return DeploymentStatus(
        observedGeneration=observed.deployment.metadata.generation,
        replicas=sum(each.status.replicas for each in everything),
        updatedReplicas=new.status.replicas if new else 0,
        readyReplicas=sum(each.status.readyReplicas for each in everything),
        availableReplicas=available,
        unavailableReplicas=max(0, sum(each.spec.replicas for each in everything) - available),
    )


def _available(observed: Observed, counted: DeploymentStatus) -> WorkloadCondition:
    deployment = observed.deployment
    least = deployment.spec.replicas - max_unavailable(deployment)
    if counted.availableReplicas >= least:
        return WorkloadCondition(
            type=AVAILABLE,
            status="True",
            reason="MinimumReplicasAvailable",
            message="Deployment has minimum availability.",
        )
    return WorkloadCondition(
        type=AVAILABLE,
        status="False",
        reason="MinimumReplicasUnavailable",
        message="Deployment does not have minimum availability.",
    )


def _progressing(
    observed: Observed, counted: DeploymentStatus, now: datetime
) -> WorkloadCondition | None:
    """Return the Progressing condition, or None to leave it unchanged."""
    deployment, new = observed.deployment, observed.new
    before = find_condition(deployment.status.conditions, PROGRESSING)
    if deployment.spec.paused:
        return _unknown("DeploymentPaused", "Deployment is paused")
    if before is not None and before.reason == "DeploymentPaused":
        return _unknown("DeploymentResumed", "Deployment is resumed")
    if new is None or deployment.spec.progressDeadlineSeconds == NO_DEADLINE:
        return None
    name = f'ReplicaSet "{new.metadata.name}"'
    is_told_complete = before is not None and before.reason == "NewReplicaSetAvailable"
    if is_told_complete and counted.replicas == counted.updatedReplicas:
        return None
    if _is_complete(observed, counted):
        return _true("NewReplicaSetAvailable", f"{name} has successfully progressed.")
    if before is None:
        return _true("FoundNewReplicaSet", f'Found new replica set "{new.metadata.name}"')
    if _moves(deployment.status, counted):
        return _true("ReplicaSetUpdated", f"{name} is progressing.")
    if _is_late(before, deployment.spec.progressDeadlineSeconds, now):
        return WorkloadCondition(
            type=PROGRESSING,
            status="False",
            reason="ProgressDeadlineExceeded",
            message=f"{name} has timed out progressing.",
        )
    return None


def _is_complete(observed: Observed, counted: DeploymentStatus) -> bool:
    wanted = observed.deployment.spec.replicas
    counts = (counted.updatedReplicas, counted.replicas, counted.availableReplicas)
    return all(count == wanted for count in counts)


def _moves(before: DeploymentStatus, after: DeploymentStatus) -> bool:
    return (
        after.updatedReplicas > before.updatedReplicas
        or after.replicas - after.updatedReplicas < before.replicas - before.updatedReplicas
        or after.readyReplicas > before.readyReplicas
        or after.availableReplicas > before.availableReplicas
    )


def _is_late(before: WorkloadCondition, deadline_seconds: int, now: datetime) -> bool:
    if before.reason in ("NewReplicaSetAvailable", "ProgressDeadlineExceeded"):
        return before.reason == "ProgressDeadlineExceeded"
    moved_at = before.lastUpdateTime
    return moved_at is not None and moved_at + timedelta(seconds=deadline_seconds) < now


def _created(name: str) -> WorkloadCondition:
    return _true("NewReplicaSetCreated", f'Created new replica set "{name}"')


def _true(reason: str, message: str) -> WorkloadCondition:
    return WorkloadCondition(type=PROGRESSING, status="True", reason=reason, message=message)


def _unknown(reason: str, message: str) -> WorkloadCondition:
    return WorkloadCondition(type=PROGRESSING, status="Unknown", reason=reason, message=message)


def _with_failure(conditions: Conditions, observed: Observed) -> Conditions:
    """Copy the failure condition of the newest ReplicaSet that has one."""
    sets = [observed.new, *observed.old]
    failures = (
        failure
        for each in sets
        if each is not None
        for failure in each.status.conditions
        if failure.type == REPLICA_FAILURE
    )
    failure = next(failures, None)
    others = without_condition(conditions, REPLICA_FAILURE)
    return (*others, failure) if failure else others
