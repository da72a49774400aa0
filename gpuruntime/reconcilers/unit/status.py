"""Status of a unit, as a pure function of what was observed."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import pairwise
from typing import Final

import attrs

from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.phases import phase_of
from gpuruntime.models.kinds.reasons import ConditionType, MountReason, UnitReason
from gpuruntime.models.kinds.units import GPUUnit, GPUUnitStatus, Timeline, child_key
from gpuruntime.models.kubernetes.conditions import Condition, with_condition
from gpuruntime.models.kubernetes.pods import Pod
from gpuruntime.models.kubernetes.timestamps import moment_of
from gpuruntime.models.kubernetes.workloads import Deployment
from gpuruntime.reconcilers.options import UnitOptions
from gpuruntime.reconcilers.storage.mount_plan import Blocked, Mountable
from gpuruntime.reconcilers.unit.children import (
    MIN_READY_SECONDS,
    access_status,
    access_url,
    is_served,
)
from gpuruntime.reconcilers.unit.pod_failures import (
    MOST_TEXT,
    FailureKind,
    PodFailure,
    crash_of,
    current_pod,
    failure_of,
    unended,
)
from gpuruntime.reconcilers.unit.start_stages import (
    SLOW_SECONDS,
    is_slow,
    reached,
    seconds_until_slow,
    words_of,
)

FAILURES = {
    FailureKind.STARTUP: UnitReason.POD_STARTUP_FAILED,
    FailureKind.UNSCHEDULABLE: UnitReason.POD_UNSCHEDULABLE,
}


@attrs.frozen(kw_only=True, slots=True)
class Verdict:
    """Why the unit is or is not Ready, as a reason and a message."""

    reason: UnitReason
    message: str
    # Whether the unit may mount its storages; None if it has none or they were not checked.
    mounts: Mountable | Blocked | None = None
    # The condition ServerlessReady of a unit that declares a function; None if it was not checked.
    workers: Condition | None = None

    @property
    def is_ready(self) -> bool:
        return self.runs or self.reason is UnitReason.FUNCTION_DECLARED

    @property
    def runs(self) -> bool:
        return self.reason is UnitReason.DEPLOYMENT_READY


ALL_HELD: Final = "every storage is ready, and held by this unit"
# The message of a start until it is slow, so that the progress of a quick one costs no writes.
ON_ITS_WAY: Final = "the Pod is on its way"
READY: Final = "the Pod is ready"
# A unit waits this long for its stock's place before it reports that it cannot be scheduled,
# because the stock's Pod has to end first.
PATIENCE_SECONDS: Final = 5.0
TOTAL: Final = "total"
# Stages of a start, in order. Each ends at one moment of the timeline; the first begins at the
# acceptance.
STAGES: Final = ("claim", "create", "schedule", "start", "ready")


def running_verdict(
    unit: GPUUnit,
    deployment: Deployment,
    pods: tuple[Pod, ...],
    *,
    is_stock: bool = False,
    now: datetime,
) -> Verdict:
    """Return the verdict on a unit whose children are in place."""
    if unit.spec.suspended:
        return stopped_verdict("suspended", pods)
    failure = _failure(deployment, pods)
    if failure is None and is_serving(deployment, pods):
        message = READY if is_stock else _ready_words(pods)
        return Verdict(reason=UnitReason.DEPLOYMENT_READY, message=message)
    if failure is None or _patience_left(failure, now):
        starting = None if failure or is_stock else _starting_pod(deployment, pods)
        message = _progress(unit, deployment, pods, starting, now)
        return Verdict(reason=UnitReason.DEPLOYMENT_PROGRESSING, message=message)
    return Verdict(reason=FAILURES[failure.kind], message=failure.message)


def _ready_words(pods: tuple[Pod, ...]) -> str:
    """Add the Pod's own message, which a Pod of the embedded cluster has: whether it is real."""
    pod = current_pod(pods)
    words = [READY, *filter(None, [pod.status.message if pod else ""])]
    return "; ".join(words)[:MOST_TEXT]


def look_again_seconds(
    unit: GPUUnit,
    deployment: Deployment,
    pods: tuple[Pod, ...],
    *,
    is_stock: bool = False,
    now: datetime,
) -> float | None:
    """Return after how many seconds the verdict may change without any event, or None."""
    failure = _failure(deployment, pods)
    if failure is None:
        is_starting = not (unit.spec.suspended or is_stock or is_serving(deployment, pods))
        return _start_seconds(deployment, pods, now) if is_starting else None
    if is_serving(deployment, pods):
        return float(MIN_READY_SECONDS)
    return _patience_left(failure, now) or None


def _start_seconds(deployment: Deployment, pods: tuple[Pod, ...], now: datetime) -> float | None:
    """Return when the start may be slow. A first Pod wakes no unit: look for it ever later."""
    pod = _starting_pod(deployment, pods)
    if pod is not None:
        return seconds_until_slow(reached(pod), now)
    created = deployment.metadata.creationTimestamp
    if current_pod(pods) is not None or deployment.refusal or created is None:
        return None
    return max(SLOW_SECONDS, (now - created).total_seconds())


def _starting_pod(deployment: Deployment, pods: tuple[Pod, ...]) -> Pod | None:
    """Return the Pod of the current template, or None."""
    return current_pod(pods) if is_rolled_out(deployment) else None


def stopped_verdict(why: str, pods: tuple[Pod, ...]) -> Verdict:
    if unended(pods):
        message = f"{why}: the Pod is still ending"
        return Verdict(reason=UnitReason.DEPLOYMENT_PROGRESSING, message=message)
    return Verdict(reason=UnitReason.SCALED_TO_ZERO, message=f"{why}: no Pod runs")


def is_serving(deployment: Deployment, pods: tuple[Pod, ...]) -> bool:
    """Return whether the Deployment and its Pod are ready; their events may come in any order.

    The Pod must agree, because it alone knows its node and since when it is ready.
    """
    pod = current_pod(pods)
    is_ready = pod is None or pod.is_ready
    return is_ready and is_current(deployment) and deployment.status.readyReplicas > 0


def status_of(
    unit: GPUUnit,
    verdict: Verdict,
    *,
    deployment: Deployment | None,
    pods: tuple[Pod, ...],
    options: UnitOptions,
    is_gateway_ready: bool | None = None,
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
    conditions = _with_storage_ready(unit, verdict.mounts, conditions, now)
    conditions = _with_serverless_ready(unit, verdict.workers, conditions, now)
    publishes = deployment is not None and is_served(unit, options)
    pod = current_pod(pods)
    status = attrs.evolve(
        unit.status,
        phase=phase_of(conditions),
        readyReplicas=1 if verdict.runs else 0,
        observedGeneration=unit.metadata.generation,
        serviceName=child_key(unit).name if publishes else "",
        accessURL=access_url(unit, options) if publishes else "",
        access=access_status(unit, options, is_gateway_ready=is_gateway_ready),
        nodeName=_node_of(unit, pod, runs=verdict.runs),
        timeline=_timeline(unit, deployment, pod, ready_at=now if verdict.runs else None),
        conditions=conditions,
    )
    return status if _is_news(unit.status, status, verdict) else unit.status


def _node_of(unit: GPUUnit, pod: Pod | None, *, runs: bool) -> str:
    """Keep the last node while the unit runs: its Pod may reach the cache after it is ready."""
    if pod is not None:
        return pod.spec.nodeName
    return unit.status.nodeName if runs else ""


def waiting_verdict(blocked: Blocked, *, runs: bool) -> Verdict:
    """Return the verdict on a unit that does not run as specified until it mounts its storages."""
    message = f"{blocked.message}; until then it runs as before" if runs else blocked.message
    return Verdict(reason=UnitReason.STORAGE_NOT_READY, message=message, mounts=blocked)


def running_with_fault(verdict: Verdict, blocked: Blocked) -> Verdict:
    """Return the verdict on a unit that runs as specified while one of its storages fails."""
    return attrs.evolve(verdict, message=f"{verdict.message}; {blocked.message}", mounts=blocked)


def _with_storage_ready(
    unit: GPUUnit,
    mounts: Mountable | Blocked | None,
    conditions: tuple[Condition, ...],
    now: datetime,
) -> tuple[Condition, ...]:
    if not unit.spec.storageMounts:
        return tuple(each for each in conditions if each.type != ConditionType.STORAGE_READY)
    if mounts is None:
        return conditions
    condition = Condition(
        type=ConditionType.STORAGE_READY,
        status="True" if isinstance(mounts, Mountable) else "False",
        reason=mounts.reason if isinstance(mounts, Blocked) else MountReason.STORAGES_HELD,
        message=mounts.message if isinstance(mounts, Blocked) else ALL_HELD,
        observedGeneration=unit.metadata.generation,
    )
    return with_condition(conditions, condition, now=now)


def _with_serverless_ready(
    unit: GPUUnit,
    workers: Condition | None,
    conditions: tuple[Condition, ...],
    now: datetime,
) -> tuple[Condition, ...]:
    if not unit.spec.is_function_template:
        return tuple(each for each in conditions if each.type != ConditionType.SERVERLESS_READY)
    return with_condition(conditions, workers, now=now) if workers else conditions


def is_current(deployment: Deployment) -> bool:
    status = deployment.status
    is_observed = status.observedGeneration >= deployment.metadata.generation
    return is_observed and status.updatedReplicas == status.replicas == 1


def _is_news(before: GPUUnitStatus, after: GPUUnitStatus, verdict: Verdict) -> bool:
    """Return whether the status is worth a write.

    Until the unit is Ready, a change of the node or the timeline alone waits for the next change.
    """
    if verdict.is_ready or before.timeline.createdAt != after.timeline.createdAt:
        return before != after
    told = attrs.evolve(after, nodeName=before.nodeName, timeline=before.timeline)
    return before != told


def _failure(deployment: Deployment, pods: tuple[Pod, ...]) -> PodFailure | None:
    """Return the failure of the Pod. After a crash, only lasting readiness ends it.

    In a crash loop the Pod is ready for moments.
    """
    if not is_serving(deployment, pods):
        return failure_of(pods) if is_rolled_out(deployment) else None
    return None if deployment.status.availableReplicas else crash_of(pods)


def _patience_left(failure: PodFailure, now: datetime) -> float:
    """Return the seconds of patience left; a wrong clock of the Pod can only shorten them."""
    if failure.kind is not FailureKind.UNSCHEDULABLE or failure.since is None:
        return 0.0
    passed = (now - failure.since).total_seconds()
    return PATIENCE_SECONDS - passed if 0 <= passed < PATIENCE_SECONDS else 0.0


def is_rolled_out(deployment: Deployment) -> bool:
    """Return whether the Pods belong to the current spec, so that their failures count."""
    return deployment.metadata.generation <= 1 or is_current(deployment)


def _progress(
    unit: GPUUnit,
    deployment: Deployment,
    pods: tuple[Pod, ...],
    starting: Pod | None,
    now: datetime,
) -> str:
    if starting is not None and is_slow(stages := reached(starting, unit), now):
        return words_of(stages)[:MOST_TEXT]
    return ON_ITS_WAY if current_pod(pods) else deployment.refusal or ON_ITS_WAY


def _timeline(
    unit: GPUUnit, deployment: Deployment | None, pod: Pod | None, *, ready_at: datetime | None
) -> Timeline:
    """Return the timeline of the first start; once the unit was ready, no moment of it changes.

    Until then, node and container are those of the present Pod, which may have a predecessor. The
    Pod may reach the cache after the unit is ready; what it then adds was before that moment.

    The marks of a claimed stock unit belong to its claimant. To copy them here would cost a write,
    and would fail the resource version guard of a release.
    """
    before = unit.status.timeline
    marks = {} if provenance.is_claimed(unit) else unit.metadata.annotations
    scheduled_at, started_at = _scheduled_at(pod), _started_at(pod)
    if before.readyAt is not None:
        scheduled_at = before.scheduledAt or _if_until(before.readyAt, scheduled_at)
        started_at = before.startedAt or _if_until(before.readyAt, started_at)
    return Timeline(
        acceptedAt=before.acceptedAt or moment_of(marks.get(labels.ACCEPTED_AT, "")),
        claimedAt=before.claimedAt or moment_of(marks.get(labels.CLAIMED_AT, "")),
        createdAt=before.createdAt
        or (deployment.metadata.creationTimestamp if deployment else None),
        scheduledAt=scheduled_at or before.scheduledAt,
        startedAt=started_at or before.startedAt,
        readyAt=before.readyAt or ready_at,
    )


def _if_until(end: datetime, moment: datetime | None) -> datetime | None:
    return moment if moment is not None and moment <= end else None


def _scheduled_at(pod: Pod | None) -> datetime | None:
    condition = pod.condition("PodScheduled") if pod else None
    return condition.lastTransitionTime if condition and condition.is_true else None


def _started_at(pod: Pod | None) -> datetime | None:
    running = [each.state.running for each in pod.status.containerStatuses] if pod else []
    moments = [each.startedAt for each in running if each and each.startedAt]
    return max(moments, default=None)


def stages_of(timeline: Timeline) -> Mapping[str, float]:
    """Return the seconds of each known stage; a stage of unknown start counts to the next one.

    The moments come from several clocks, and some are whole seconds, so no stage is below 0.
    """
    known = [(stage, moment) for stage, moment in _moments(timeline) if moment is not None]
    if not known:
        return {}
    taken = {stage: _seconds(since, until) for (_, since), (stage, until) in pairwise(known)}
    return {**taken, TOTAL: _seconds(known[0][1], known[-1][1])}


def _moments(timeline: Timeline) -> Iterator[tuple[str, datetime | None]]:
    yield "", timeline.acceptedAt
    ends = (
        timeline.claimedAt,
        timeline.createdAt,
        timeline.scheduledAt,
        timeline.startedAt,
        timeline.readyAt,
    )
    yield from zip(STAGES, ends, strict=True)


def _seconds(since: datetime, until: datetime) -> float:
    return max((until - since).total_seconds(), 0.0)
