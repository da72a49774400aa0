"""The status of a unit by its Deployment and its Pods: every reason and every moment."""

from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.phases import UnitPhase
from gpuruntime.models.kinds.reasons import UnitReason
from gpuruntime.models.kinds.templates import Port, Template
from gpuruntime.models.kinds.units import GPUUnit, GPUUnitSpec, GPUUnitStatus, Timeline
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.models.kubernetes.pods import (
    ContainerState,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
    Running,
    Terminated,
    Waiting,
)
from gpuruntime.models.kubernetes.workloads import Deployment, DeploymentStatus
from gpuruntime.reconcilers.options import UnitOptions
from gpuruntime.reconcilers.unit.children import MIN_READY_SECONDS
from gpuruntime.reconcilers.unit.start_stages import SLOW_SECONDS
from gpuruntime.reconcilers.unit.status import (
    ON_ITS_WAY,
    PATIENCE_SECONDS,
    Verdict,
    look_again_seconds,
    running_verdict,
    stages_of,
    status_of,
    stopped_verdict,
)
from tests.options import configured

NOW = datetime(2025, 1, 1, 12, tzinfo=UTC)
OPTIONS = configured(UnitOptions)
CREATED = NOW - timedelta(seconds=30)
ENDED = Terminated(exitCode=1, reason="Error", message="no weights")


def unit(*, marks: Any = None, status: GPUUnitStatus | None = None, **spec: Any) -> GPUUnit:
    metadata = ObjectMeta(
        name="demo", namespace=OPTIONS.instance_namespace, generation=2, annotations=marks or {}
    )
    wanted = GPUUnitSpec(specName="g1", **spec)
    return GPUUnit(metadata=metadata, spec=wanted, status=status or GPUUnitStatus())


def deployment(
    *, ready: int = 0, available: int = 0, generation: int = 1, observed: int = 1, **more: Any
) -> Deployment:
    return Deployment(
        metadata=ObjectMeta(name="unit-demo", generation=generation, creationTimestamp=CREATED),
        status=DeploymentStatus(
            observedGeneration=observed,
            replicas=1,
            updatedReplicas=1,
            readyReplicas=ready,
            availableReplicas=available,
            **more,
        ),
    )


SERVING = deployment(ready=1, available=1)


def pod(
    *, ready: bool = False, scheduled: Condition | None = None, restarts: int = 0, **state: Any
) -> Pod:
    container = ContainerStatus(
        name="runtime",
        ready=ready,
        restartCount=restarts,
        state=ContainerState(**state),
        lastState=ContainerState(terminated=ENDED if restarts else None),
    )
    conditions = (
        scheduled or Condition(type="PodScheduled", status="True", lastTransitionTime=CREATED),
        Condition(type="Ready", status="True" if ready else "False"),
    )
    return Pod(
        metadata=ObjectMeta(name="pod", creationTimestamp=CREATED),
        spec=PodSpec(nodeName="node-1"),
        status=PodStatus(conditions=conditions, containerStatuses=(container,)),
    )


READY = pod(ready=True, running=Running(startedAt=NOW))
SIMULATED = attrs.evolve(READY, status=attrs.evolve(READY.status, message="simulated: no process"))
PULL = pod(waiting=Waiting(reason="ImagePullBackOff", message="no such image"))
CREATING = pod(waiting=Waiting(reason="ContainerCreating"))
PREPARING = "preparing Pod pod on node node-1 since 2025-01-01T11:59:30Z"
CRASHED = pod(ready=True, restarts=1, running=Running(startedAt=NOW))


def quick(seconds: float) -> Pod:
    """Return a Pod that was created and scheduled this long ago."""
    moment = NOW - timedelta(seconds=seconds)
    scheduled = Condition(type="PodScheduled", status="True", lastTransitionTime=moment)
    shown = pod(scheduled=scheduled, waiting=Waiting(reason="ContainerCreating"))
    metadata = attrs.evolve(shown.metadata, creationTimestamp=moment)
    return attrs.evolve(shown, metadata=metadata)


def unschedulable(*, seconds: float) -> Pod:
    return pod(
        scheduled=Condition(
            type="PodScheduled",
            status="False",
            reason="Unschedulable",
            message="0/3 nodes are available",
            lastTransitionTime=NOW - timedelta(seconds=seconds),
        )
    )


def refusing(message: str) -> Deployment:
    condition = Condition(type="ReplicaFailure", status="True", message=message)
    return deployment(conditions=(condition,))


@pytest.mark.parametrize(
    ("kept", "pods", "reason", "message"),
    [
        (SERVING, (READY,), "DeploymentReady", "the Pod is ready"),
        (SERVING, (), "DeploymentReady", "the Pod is ready"),
        (SERVING, (SIMULATED,), "DeploymentReady", "the Pod is ready; simulated: no process"),
        (SERVING, (CREATING,), "DeploymentProgressing", PREPARING),
        (deployment(), (), "DeploymentProgressing", ON_ITS_WAY),
        (
            deployment(),
            (READY,),
            "DeploymentProgressing",
            "the Pod is ready, and its Deployment does not count it yet",
        ),
        (refusing("over quota"), (), "DeploymentProgressing", "over quota"),
        (refusing("over quota"), (CREATING,), "DeploymentProgressing", PREPARING),
        (
            deployment(),
            (PULL,),
            "PodStartupFailed",
            "pod/runtime: ImagePullBackOff: no such image",
        ),
        (
            deployment(ready=1),
            (CRASHED,),
            "PodStartupFailed",
            "pod/runtime: Error: exit code 1: no weights",
        ),
        (SERVING, (CRASHED,), "DeploymentReady", "the Pod is ready"),
        (deployment(), (unschedulable(seconds=1),), "DeploymentProgressing", ON_ITS_WAY),
        (
            deployment(),
            (unschedulable(seconds=PATIENCE_SECONDS),),
            "PodUnschedulable",
            "pod: 0/3 nodes are available",
        ),
        (
            deployment(),
            (unschedulable(seconds=-60),),
            "PodUnschedulable",
            "pod: 0/3 nodes are available",
        ),
        (deployment(generation=2, observed=1), (PULL,), "DeploymentProgressing", ON_ITS_WAY),
        (
            deployment(generation=2, observed=2),
            (PULL,),
            "PodStartupFailed",
            "pod/runtime: ImagePullBackOff: no such image",
        ),
        (
            deployment(ready=1, available=1, generation=2, observed=1),
            (READY,),
            "DeploymentProgressing",
            ON_ITS_WAY,
        ),
    ],
)
def test_each_observation_gives_one_reason(
    kept: Deployment, pods: tuple[Pod, ...], reason: str, message: str
) -> None:
    found = running_verdict(unit(), kept, pods, now=NOW)
    assert (found.reason, found.message) == (reason, message)
    assert found.is_ready is (reason == "DeploymentReady")


def test_stock_repeats_no_message_of_its_pod() -> None:
    found = running_verdict(unit(), SERVING, (SIMULATED,), is_stock=True, now=NOW)
    assert found.message == "the Pod is ready"


@pytest.mark.parametrize(
    ("pods", "reason", "message"),
    [
        ((READY,), "DeploymentProgressing", "suspended: the Pod is still ending"),
        ((), "ScaledToZero", "suspended: no Pod runs"),
    ],
)
def test_a_suspended_unit_is_scaled_to_zero_once_its_pods_are_gone(
    pods: tuple[Pod, ...], reason: str, message: str
) -> None:
    found = running_verdict(unit(suspended=True), SERVING, pods, now=NOW)
    assert found == stopped_verdict("suspended", pods)
    assert (found.reason, found.message) == (reason, message)


@pytest.mark.parametrize(
    ("kept", "pods", "seconds"),
    [
        (SERVING, (READY,), None),
        (deployment(), (CREATING,), None),
        (deployment(), (quick(2.5),), SLOW_SECONDS - 2.5),
        (deployment(), (quick(-60.0),), SLOW_SECONDS),
        (deployment(generation=2), (quick(1.0),), None),
        (deployment(), (), 30.0),
        (refusing("over quota"), (), None),
        (deployment(), (PULL,), None),
        (deployment(ready=1), (CRASHED,), float(MIN_READY_SECONDS)),
        (deployment(), (unschedulable(seconds=1),), PATIENCE_SECONDS - 1),
        (deployment(), (unschedulable(seconds=60),), None),
    ],
)
def test_only_a_verdict_that_time_alone_changes_is_checked_again(
    kept: Deployment, pods: tuple[Pod, ...], seconds: float | None
) -> None:
    assert look_again_seconds(unit(), kept, pods, now=NOW) == seconds


def test_stock_and_suspended_units_do_not_report_how_a_pod_starts() -> None:
    for of, is_stock in ((unit(), True), (unit(suspended=True), False)):
        seconds = look_again_seconds(of, deployment(), (quick(1.0),), is_stock=is_stock, now=NOW)
        assert seconds is None
    found = running_verdict(unit(), deployment(), (CREATING,), is_stock=True, now=NOW)
    assert found.message == ON_ITS_WAY


def test_a_slow_start_reports_its_node_and_its_moments_with_the_message() -> None:
    running = pod(running=Running(startedAt=NOW - timedelta(seconds=9)))
    started = unit(status=told(unit(), UnitReason.DEPLOYMENT_PROGRESSING, kept=deployment()))
    verdict = running_verdict(started, deployment(), (running,), now=NOW)
    status = status_of(
        started, verdict, deployment=deployment(), pods=(running,), options=OPTIONS, now=NOW
    )
    assert status.conditions[0].message.startswith("container runtime runs and is not ready since")
    assert (status.nodeName, status.timeline.scheduledAt) == ("node-1", CREATED)
    assert status.timeline.startedAt == NOW - timedelta(seconds=9)


def test_each_stage_of_a_slow_start_is_worth_one_write() -> None:
    """A Pod is seen every 100 ms: prepared within 1 s, pulled for 60 s, and then it loads."""
    writes, held = (
        [],
        unit(status=told(unit(), UnitReason.DEPLOYMENT_PROGRESSING, kept=deployment())),
    )
    for tick in range(900):
        now = CREATED + timedelta(seconds=tick / 10)
        kept = deployment(generation=1)
        status = _status_at(held, kept, _pod_after(tick / 10), now)
        if status != held.status:
            writes.append(status.conditions[0].message.partition(" since")[0])
            held = attrs.evolve(held, status=status)
    assert writes == [
        ON_ITS_WAY,  # as in every start
        "pulling image big:1 on node node-1",
        "container runtime runs and is not ready",
    ]


def _status_at(held: GPUUnit, kept: Deployment, shown: Pod, now: datetime) -> GPUUnitStatus:
    verdict = running_verdict(held, kept, (shown,), now=now)
    return status_of(held, verdict, deployment=kept, pods=(shown,), options=OPTIONS, now=now)


def _pod_after(seconds: float) -> Pod:
    """Return the Pod at this time: prepared after 1 s, and its container runs after 61 s."""
    pulled = CREATED + timedelta(seconds=61)
    if seconds >= 61:
        shown = pod(running=Running(startedAt=pulled))
    else:
        shown = pod(waiting=Waiting(reason="ContainerCreating"))
    prepared = Condition(
        type="PodReadyToStartContainers",
        status=str(seconds >= 1),
        lastTransitionTime=CREATED + timedelta(seconds=1),
    )
    (container,) = shown.status.containerStatuses
    status = attrs.evolve(
        shown.status,
        conditions=(*shown.status.conditions, prepared),
        containerStatuses=(attrs.evolve(container, image="big:1"),),
    )
    return attrs.evolve(shown, status=status)


PHASES = {
    UnitReason.DEPLOYMENT_READY: UnitPhase.READY,
    UnitReason.FUNCTION_DECLARED: UnitPhase.READY,
    UnitReason.SCALED_TO_ZERO: UnitPhase.SUSPENDED,
    UnitReason.INVALID_SPEC: UnitPhase.FAILED,
    UnitReason.POD_STARTUP_FAILED: UnitPhase.FAILED,
    UnitReason.STORAGE_MOUNT_INVALID: UnitPhase.FAILED,
    UnitReason.SERVERLESS_CONFIG_INVALID: UnitPhase.FAILED,
    UnitReason.OPERATION_CONFLICT: UnitPhase.FAILED,
}


def told(
    of: GPUUnit, reason: UnitReason, *pods: Pod, kept: Deployment | None = None
) -> GPUUnitStatus:
    verdict = Verdict(reason=reason, message="words")
    return status_of(of, verdict, deployment=kept, pods=pods, options=OPTIONS, now=NOW)


@pytest.mark.parametrize("reason", list(UnitReason))
def test_every_reason_gives_its_phase_and_the_observed_generation(
    reason: UnitReason,
) -> None:
    status = told(unit(), reason)
    assert status.phase == PHASES.get(reason, UnitPhase.PROGRESSING)
    assert status.readyReplicas == int(reason is UnitReason.DEPLOYMENT_READY)
    assert status.observedGeneration == 2
    (condition,) = status.conditions
    assert (condition.reason, condition.observedGeneration) == (reason, 2)


def test_an_address_is_published_once_there_is_a_deployment_behind_it() -> None:
    served = unit(template=Template(ports=(Port(name="http", port=80),)))
    before = told(served, UnitReason.DEPLOYMENT_PROGRESSING)
    assert (before.serviceName, before.accessURL) == ("", "")
    after = told(served, UnitReason.DEPLOYMENT_PROGRESSING, kept=deployment())
    assert after.serviceName == "unit-demo"
    assert after.accessURL == "http://unit-demo.runtime-instance.svc.cluster.local:80"
    assert told(unit(), UnitReason.DEPLOYMENT_READY, kept=SERVING).serviceName == ""


def test_the_timeline_records_the_first_start() -> None:
    moment = NOW - timedelta(seconds=40)
    marks = {labels.ACCEPTED_AT: moment.isoformat(), labels.CLAIMED_AT: moment.isoformat()}
    status = told(unit(marks=marks), UnitReason.DEPLOYMENT_READY, READY, kept=SERVING)
    timeline = status.timeline
    assert (timeline.acceptedAt, timeline.claimedAt) == (moment, moment)
    assert (timeline.createdAt, timeline.scheduledAt) == (CREATED, CREATED)
    assert (timeline.startedAt, timeline.readyAt) == (NOW, NOW)
    later = attrs.evolve(SERVING, metadata=ObjectMeta(creationTimestamp=NOW))
    again = told(unit(status=status), UnitReason.DEPLOYMENT_READY, kept=later)
    assert again.timeline == timeline


def test_a_pod_that_is_seen_after_its_unit_was_ready_completes_the_timeline() -> None:
    """The Deployment's event came first, so that the unit was ready before its Pod was known."""
    early = told(unit(), UnitReason.DEPLOYMENT_READY, kept=SERVING)
    assert (early.timeline.scheduledAt, early.timeline.readyAt) == (None, NOW)
    complete = told(unit(status=early), UnitReason.DEPLOYMENT_READY, READY, kept=SERVING)
    expected = attrs.evolve(early.timeline, scheduledAt=CREATED, startedAt=NOW)
    assert complete.timeline == expected


def test_the_pod_of_a_later_start_adds_nothing_to_the_timeline_of_the_first() -> None:
    early = told(unit(), UnitReason.DEPLOYMENT_READY, kept=SERVING)
    later = NOW + timedelta(seconds=1)
    scheduled = Condition(type="PodScheduled", status="True", lastTransitionTime=later)
    second = pod(ready=True, scheduled=scheduled, running=Running(startedAt=later))
    again = told(unit(status=early), UnitReason.DEPLOYMENT_READY, second, kept=SERVING)
    assert again.timeline == early.timeline


def test_invalid_moments_are_left_out() -> None:
    """Python reads a moment before the first year of UTC, but cannot write it again."""
    for one in ("yesterday", "2025-01-01T00:00:00", "0001-01-01T00:00:00+14:00"):
        marks = {labels.ACCEPTED_AT: one, labels.CLAIMED_AT: one}
        timeline = told(unit(marks=marks), UnitReason.INVALID_SPEC).timeline
        assert timeline == GPUUnitStatus().timeline


def test_a_claim_on_stock_changes_no_status_of_it() -> None:
    """A write would fail the version guard of a caller that releases the claim."""
    settled = told(unit(), UnitReason.DEPLOYMENT_READY, READY, kept=SERVING)
    marks = {labels.CLAIMED_BY: "instance/a", labels.CLAIMED_AT: NOW.isoformat()}
    claimed = unit(marks=marks, status=settled)
    assert told(claimed, UnitReason.DEPLOYMENT_READY, READY, kept=SERVING) == settled


def test_before_ready_only_the_start_is_worth_a_write() -> None:
    first = told(unit(), UnitReason.DEPLOYMENT_PROGRESSING, kept=deployment())
    assert first.timeline.createdAt == CREATED
    assert first.nodeName == ""
    started = unit(status=first)
    onward = told(started, UnitReason.DEPLOYMENT_PROGRESSING, CREATING, kept=deployment())
    assert onward == first
    ready = told(started, UnitReason.DEPLOYMENT_READY, READY, kept=SERVING)
    assert ready.nodeName == "node-1"


def test_a_running_unit_keeps_its_node_while_its_pod_is_not_known() -> None:
    ready = told(unit(), UnitReason.DEPLOYMENT_READY, READY, kept=SERVING)
    assert ready.nodeName == "node-1"
    assert told(unit(status=ready), UnitReason.DEPLOYMENT_READY, kept=SERVING) == ready
    asleep = told(unit(status=ready), UnitReason.SCALED_TO_ZERO, kept=deployment())
    assert asleep.nodeName == ""


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


WHOLE = Timeline(
    acceptedAt=at(0),
    claimedAt=at(0.5),
    createdAt=at(2),
    scheduledAt=at(3),
    startedAt=at(603),
    readyAt=at(610),
)


def test_each_stage_begins_at_the_end_of_the_previous_one() -> None:
    assert stages_of(WHOLE) == {
        "claim": 0.5,
        "create": 1.5,
        "schedule": 1,
        "start": 600,
        "ready": 7,
        "total": 610,
    }


def test_the_stages_of_an_unclaimed_unit_begin_at_its_creation() -> None:
    stages = stages_of(attrs.evolve(WHOLE, acceptedAt=None, claimedAt=None))
    assert stages == {"schedule": 1, "start": 600, "ready": 7, "total": 608}


def test_an_unknown_stage_counts_to_the_next_one() -> None:
    stages = stages_of(attrs.evolve(WHOLE, scheduledAt=None, startedAt=None))
    assert stages == {"claim": 0.5, "create": 1.5, "ready": 608, "total": 610}


def test_different_clocks_give_no_negative_time() -> None:
    assert stages_of(attrs.evolve(WHOLE, createdAt=at(0)))["create"] == 0


def test_a_timeline_without_a_moment_has_no_stage() -> None:
    assert stages_of(Timeline()) == {}
