"""The status of a unit as a function of what was observed of it."""

from datetime import datetime

import attrs

from gpuruntime.models import labels
from gpuruntime.models.conditions import Condition, with_condition
from gpuruntime.models.phases import phase_of
from gpuruntime.models.pods import Pod
from gpuruntime.models.reasons import ConditionType, UnitReason
from gpuruntime.models.units import GPUUnit, GPUUnitStatus, Timeline
from gpuruntime.models.workloads import Deployment
from gpuruntime.reconcilers.children import access_url, child_key, service_of
from gpuruntime.reconcilers.options import UnitOptions
from gpuruntime.reconcilers.pod_failures import FailureKind, failure_of

FAILURES = {
    FailureKind.STARTUP: UnitReason.POD_STARTUP_FAILED,
    FailureKind.UNSCHEDULABLE: UnitReason.POD_UNSCHEDULABLE,
}


@attrs.frozen(kw_only=True, slots=True)
class Verdict:
    """Why the unit is or is not Ready, in a reason and a sentence."""

    reason: UnitReason
    message: str

    @property
    def is_ready(self) -> bool:
        return self.reason is UnitReason.DEPLOYMENT_READY


def running_verdict(unit: GPUUnit, deployment: Deployment, pods: tuple[Pod, ...]) -> Verdict:
    """Of a unit whose children are in place."""
    living = [pod for pod in pods if pod.metadata.deletionTimestamp is None]
    if unit.spec.suspended:
        return _suspended(pods)
    if is_current(deployment) and deployment.status.readyReplicas:
        return Verdict(reason=UnitReason.DEPLOYMENT_READY, message="the Pod is ready")
    failure = failure_of(pods)
    if failure is not None:
        return Verdict(reason=FAILURES[failure.kind], message=failure.message)
    return Verdict(reason=UnitReason.DEPLOYMENT_PROGRESSING, message=_progress(deployment, living))


def status_of(
    unit: GPUUnit,
    verdict: Verdict,
    *,
    deployment: Deployment | None,
    pods: tuple[Pod, ...],
    options: UnitOptions,
    now: datetime,
) -> GPUUnitStatus:
    condition = Condition(
        type=ConditionType.READY,
        status="True" if verdict.is_ready else "False",
        reason=verdict.reason,
        message=verdict.message,
        observedGeneration=unit.metadata.generation,
    )
    conditions = with_condition(unit.status.conditions, condition, now=now)
    publishes = deployment is not None and service_of(unit, options) is not None
    ready = next((pod for pod in pods if pod.is_ready), None)
    return attrs.evolve(
        unit.status,
        phase=phase_of(conditions),
        readyReplicas=1 if verdict.is_ready else 0,
        observedGeneration=unit.metadata.generation,
        serviceName=child_key(unit).name if publishes else "",
        accessURL=access_url(unit, options) if publishes else "",
        nodeName=_node_of(pods),
        timeline=_timeline(unit, verdict, deployment, ready, now),
        conditions=conditions,
    )


def is_current(deployment: Deployment) -> bool:
    status = deployment.status
    is_observed = status.observedGeneration >= deployment.metadata.generation
    return is_observed and status.updatedReplicas == status.replicas == 1


def _suspended(pods: tuple[Pod, ...]) -> Verdict:
    if pods:
        message = f"suspending: {len(pods)} Pod is still ending"
        return Verdict(reason=UnitReason.DEPLOYMENT_PROGRESSING, message=message)
    return Verdict(reason=UnitReason.SCALED_TO_ZERO, message="suspended: no Pod runs")


def _progress(deployment: Deployment, living: list[Pod]) -> str:
    if not living:
        trouble = next(
            (each for each in deployment.status.conditions if each.type == "ReplicaFailure"), None
        )
        return trouble.message if trouble else "the Pod is being created"
    pod = living[0]
    if not pod.spec.nodeName:
        return f"Pod {pod.metadata.name} waits for a node"
    return f"Pod {pod.metadata.name} is starting on node {pod.spec.nodeName}"


def _node_of(pods: tuple[Pod, ...]) -> str:
    return next((pod.spec.nodeName for pod in pods if pod.spec.nodeName), "")


def _timeline(
    unit: GPUUnit,
    verdict: Verdict,
    deployment: Deployment | None,
    ready: Pod | None,
    now: datetime,
) -> Timeline:
    """Each moment is written once: the timeline tells the first start, not the latest."""
    before = unit.status.timeline
    marks = unit.metadata.annotations
    return Timeline(
        acceptedAt=before.acceptedAt or _moment(marks.get(labels.ACCEPTED_AT, "")),
        claimedAt=before.claimedAt or _moment(marks.get(labels.CLAIMED_AT, "")),
        createdAt=before.createdAt
        or (deployment.metadata.creationTimestamp if deployment else None),
        scheduledAt=before.scheduledAt or _condition_moment(ready, "PodScheduled"),
        startedAt=before.startedAt or _started_at(ready),
        readyAt=before.readyAt or (now if verdict.is_ready else None),
    )


def _condition_moment(pod: Pod | None, type_: str) -> datetime | None:
    condition = pod.condition(type_) if pod else None
    return condition.lastTransitionTime if condition else None


def _started_at(pod: Pod | None) -> datetime | None:
    running = [each.state.running for each in pod.status.containerStatuses] if pod else []
    moments = [each.startedAt for each in running if each and each.startedAt]
    return max(moments, default=None)


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else None
