"""Pure decisions about a ReplicaSet: how many Pods to create, which to delete, and its status."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

import attrs

from gpuruntime.embedded.kinds.pod_objects import Pod
from gpuruntime.embedded.kinds.workload_objects import (
    ReplicaSet,
    ReplicaSetStatus,
    WorkloadCondition,
    updated_conditions,
    without_condition,
)

REPLICA_FAILURE: Final = "ReplicaFailure"
_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}


@attrs.frozen(kw_only=True, slots=True)
class Plan:
    missing: int = 0
    surplus: tuple[Pod, ...] = ()


def decide(replica_set: ReplicaSet, pods: Iterable[Pod]) -> Plan:
    active = [pod for pod in pods if is_active(pod)]
    difference = replica_set.spec.replicas - len(active)
    if difference >= 0:
        return Plan(missing=difference)
    ranked = sorted(active, key=_worth)
    return Plan(surplus=tuple(ranked[:-difference]))


def is_active(pod: Pod) -> bool:
    return not pod.is_finished and not pod.is_ending


def replica_set_status(
    replica_set: ReplicaSet, pods: Iterable[Pod], *, failure: str, now: datetime
) -> ReplicaSetStatus:
    """Return the status; `failure` says why Pods could not be created or deleted, or is empty."""
    active = [pod for pod in pods if is_active(pod)]
    least = replica_set.spec.minReadySeconds
    conditions = replica_set.status.conditions
    if failure:
        conditions = updated_conditions(conditions, _failed(failure), now=now)
        conditions = tuple(attrs.evolve(each, lastUpdateTime=None) for each in conditions)
    else:
        conditions = without_condition(conditions, REPLICA_FAILURE)
    return ReplicaSetStatus(
        replicas=len(active),
        fullyLabeledReplicas=len(active),
        readyReplicas=sum(pod.is_ready for pod in active),
        availableReplicas=sum(is_available(pod, least, now) for pod in active),
        observedGeneration=replica_set.metadata.generation,
        conditions=conditions,
    )


def is_available(pod: Pod, least_seconds: int, now: datetime) -> bool:
    """Return whether the Pod was ready for long enough; False if the time is unknown."""
    ready = pod.condition("Ready")
    if ready is None or not ready.is_true:
        return False
    since = ready.lastTransitionTime
    return not least_seconds or (
        since is not None and since + timedelta(seconds=least_seconds) <= now
    )


def _failed(message: str) -> WorkloadCondition:
    return WorkloadCondition(
        type=REPLICA_FAILURE, status="True", reason="FailedCreate", message=message
    )


def _worth(pod: Pod) -> tuple[object, ...]:
    """Return a key that sorts the least useful Pod first.

    It is not assigned, not running, not ready, restarted often, or created last.
    """
    created_at, ready = pod.metadata.creationTimestamp, pod.condition("Ready")
    ready_at = ready.lastTransitionTime if ready and pod.is_ready else None
    return (
        bool(pod.spec.nodeName),
        _PHASES.get(pod.status.phase, 0),
        pod.is_ready,
        -ready_at.timestamp() if ready_at else 0.0,
        -pod.restarts,
        -created_at.timestamp() if created_at else 0.0,
        pod.metadata.name,
    )
