"""Predicates decide which changes of an object enqueue keys."""

from datetime import UTC, datetime
from typing import Any

import attrs
import msgspec
import pytest

from gpuruntime.models.kinds.labels import APPLIED
from gpuruntime.models.kinds.units import GPUUnit, GPUUnitSpec, GPUUnitStatus, Timeline
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.models.kubernetes.pods import (
    ContainerState,
    ContainerStatus,
    Pod,
    PodStatus,
    Waiting,
)
from gpuruntime.models.kubernetes.workloads import Deployment, DeploymentStatus
from gpuruntime.reconcilers.predicates import (
    asked,
    by_wait,
    counted,
    has_begun,
    has_replicas,
    is_news,
    readiness,
    trouble,
    unit_name,
)

MOMENT = datetime(2025, 1, 1, tzinfo=UTC)
UNIT = GPUUnit(
    metadata=ObjectMeta(name="demo", uid="u1", generation=1, resourceVersion="5"),
    spec=GPUUnitSpec(specName="g1"),
)


def with_metadata(**changes: Any) -> GPUUnit:
    return attrs.evolve(UNIT, metadata=attrs.evolve(UNIT.metadata, **changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"uid": "u2"},
        {"generation": 2},
        {"annotations": {"a": "b"}},
        {"labels": {"a": "b"}},
        {"finalizers": ("f",)},
        {"deletionTimestamp": MOMENT},
    ],
    ids=["uid", "generation", "annotations", "labels", "finalizers", "deletion"],
)
def test_a_change_by_a_caller_enqueues_the_unit(changes: dict[str, Any]) -> None:
    assert asked(with_metadata(**changes)) != asked(UNIT)


def test_our_own_status_enqueues_nothing() -> None:
    answered = attrs.evolve(
        with_metadata(resourceVersion="6"), status=GPUUnitStatus(phase="Ready")
    )
    assert asked(answered) == asked(UNIT)


def test_a_pool_counts_stock_by_phase_claim_deletion_and_spec() -> None:
    ready, failed, mended, unplaced, unplaced_otherwise = (
        attrs.evolve(UNIT, status=GPUUnitStatus(conditions=(condition,)))
        for condition in (
            Condition(type="Ready", status="True", reason="DeploymentReady"),
            Condition(type="Ready", status="False", reason="PodStartupFailed", message="a"),
            Condition(type="Ready", status="False", reason="PodStartupFailed", message="b"),
            Condition(type="Ready", status="False", reason="PodUnschedulable", message="a"),
            Condition(type="Ready", status="False", reason="PodUnschedulable", message="b"),
        )
    )
    changed = with_metadata(generation=UNIT.metadata.generation + 1)
    claimed = with_metadata(annotations={"runtime.lokiwager.io/claimed-by": "instance/a"})
    leaving = with_metadata(deletionTimestamp=MOMENT)
    states = [None, UNIT, ready, failed, mended, unplaced, unplaced_otherwise]
    kinds = [counted(each) for each in (*states, claimed, leaving, changed)]
    assert len({repr(each) for each in kinds}) == len(states) + 3
    assert counted(with_metadata(labels={"a": "b"})) == counted(UNIT)


def test_a_unit_has_begun_once_its_timeline_says_so() -> None:
    begun = attrs.evolve(UNIT, status=GPUUnitStatus(timeline=Timeline(createdAt=MOMENT)))
    assert has_begun(begun)
    assert not has_begun(UNIT)
    assert not has_begun(None)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [("ClaimLost", ["g1"]), ("InvalidSpec", [])],
    ids=["claim lost", "invalid spec"],
)
def test_only_a_unit_that_lost_its_claim_waits_for_stock(reason: str, expected: list[str]) -> None:
    condition = Condition(type="Ready", reason=reason)
    assert list(by_wait(attrs.evolve(UNIT, status=GPUUnitStatus(conditions=(condition,))))) == (
        expected
    )
    assert list(by_wait(UNIT)) == []


def deployment(*, marks: Any = None, spec: bytes = b"{}", **status: Any) -> Deployment:
    return Deployment(
        metadata=ObjectMeta(name="unit-demo", generation=1, annotations=marks or {}),
        spec=msgspec.Raw(spec),
        status=DeploymentStatus(**status),
    )


def test_a_new_child_is_news_unless_we_created_it() -> None:
    assert not is_news(None, deployment(marks={APPLIED: "{}"}))
    assert is_news(None, deployment())
    assert is_news(deployment(), None)


def test_a_changed_child_is_news_unless_only_its_status_changed() -> None:
    assert is_news(deployment(), deployment(spec=b'{"replicas":3}'))
    assert is_news(deployment(), deployment(marks={"a": "b"}))
    assert not is_news(deployment(), deployment(readyReplicas=1))


CURRENT: dict[str, Any] = {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1}


def test_a_deployment_counts_when_it_is_rolled_out_ready_or_refused() -> None:
    assert readiness(None) == readiness(deployment()) == readiness(deployment(readyReplicas=1))
    on_its_way = readiness(deployment(**CURRENT))
    quota = Condition(type="ReplicaFailure", status="True", message="over quota")
    others = [
        deployment(**CURRENT, readyReplicas=1),
        deployment(**CURRENT, conditions=(quota,)),
        attrs.evolve(deployment(**CURRENT), metadata=ObjectMeta(generation=2)),
    ]
    assert on_its_way not in [readiness(each) for each in others]


def test_the_first_replica_alone_does_not_change_how_a_deployment_counts() -> None:
    assert readiness(deployment()) == readiness(deployment(**CURRENT))
    assert [has_replicas(each) for each in (None, deployment(), deployment(replicas=1))] == [
        False,
        False,
        True,
    ]


def pod(*, ready: bool = False, gone: bool = False, waiting: str = "") -> Pod:
    state = ContainerState(waiting=Waiting(reason=waiting) if waiting else None)
    return Pod(
        metadata=ObjectMeta(name="pod", deletionTimestamp=MOMENT if gone else None),
        status=PodStatus(
            conditions=(Condition(type="Ready", status="True" if ready else "False"),),
            containerStatuses=(ContainerStatus(name="runtime", state=state),),
        ),
    )


def test_a_pod_counts_when_it_fails_is_ready_or_ends_and_at_no_step_between() -> None:
    assert trouble(pod()) == trouble(pod(waiting="ContainerCreating")) == trouble(None)
    ended = attrs.evolve(pod(), status=PodStatus(phase="Succeeded"))
    others = [pod(ready=True), pod(gone=True), pod(waiting="ErrImagePull"), ended]
    assert len({repr(trouble(each)) for each in (None, *others)}) == 5


def test_a_child_without_our_label_belongs_to_no_unit() -> None:
    assert unit_name(pod()) == unit_name(None) == ""
