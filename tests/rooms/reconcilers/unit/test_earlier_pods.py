"""Owners of Pods that have a unit's name."""

from datetime import UTC, datetime, timedelta

import pytest

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.functions import Serverless, WorkerOf
from gpuruntime.models.kinds.units import GPUUnit, GPUUnitSpec, GPUUnitStatus, Timeline
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.models.kubernetes.pods import Pod, PodStatus
from gpuruntime.reconcilers.unit.earlier_pods import awaited_pods, own_pods, waiting_message

MADE = datetime(2026, 1, 1, tzinfo=UTC)
WORKER = Serverless(requestID="f", workerOf=WorkerOf(name="f", uid="1"))


def unit(
    *, started: bool = False, tenant: str = "b", serverless: Serverless | None = None
) -> GPUUnit:
    given = {labels.TENANT: tenant}
    return GPUUnit(
        metadata=ObjectMeta(name="demo", creationTimestamp=MADE, labels=given),
        spec=GPUUnitSpec(specName="g1", serverless=serverless),
        status=GPUUnitStatus(timeline=Timeline(createdAt=MADE if started else None)),
    )


def pod(seconds: float, *, phase: str = "Running", tenant: str = "a") -> Pod:
    """Return a Pod created that many seconds after the unit."""
    made = MADE + timedelta(seconds=seconds)
    given = {labels.TENANT: tenant}
    return Pod(
        metadata=ObjectMeta(name="unit-demo-x", creationTimestamp=made, labels=given),
        status=PodStatus(phase=phase),
    )


@pytest.mark.parametrize(
    ("seconds", "started", "has_deployment", "expected"),
    [
        (-1, False, False, False),
        (0, False, False, False),
        (1, False, False, False),
        (-1, True, False, False),
        (0, True, False, True),
        (-1, True, True, True),
        (1, False, True, True),
    ],
)
def test_without_a_deployment_only_a_started_unit_has_pods_and_no_older_ones(
    seconds: float, *, started: bool, has_deployment: bool, expected: bool
) -> None:
    found = own_pods(unit(started=started), (pod(seconds),), has_deployment=has_deployment)
    assert bool(found) is expected


def test_an_ended_pod_of_an_earlier_unit_is_not_the_units_own() -> None:
    ended = (pod(-1, phase="Failed"),)
    assert own_pods(unit(), ended, has_deployment=True) == ()
    assert len(own_pods(unit(), (pod(1, phase="Failed"),), has_deployment=True)) == 1


def test_an_ended_pod_is_not_awaited() -> None:
    assert awaited_pods(unit(), (pod(-1, phase="Failed"), pod(-1, phase="Succeeded"))) == ()
    assert len(awaited_pods(unit(), (pod(-1),))) == 1


def test_the_pods_of_the_units_own_deleted_deployment_are_not_awaited() -> None:
    assert awaited_pods(unit(started=True), (pod(1),)) == ()


def test_a_worker_awaits_only_the_pods_of_other_tenants() -> None:
    worker = unit(serverless=WORKER)
    assert awaited_pods(worker, (pod(-1, tenant="b"),)) == ()
    assert len(awaited_pods(worker, (pod(-1, tenant="a"),))) == 1
    assert len(awaited_pods(unit(), (pod(-1, tenant="b"),))) == 1


def test_the_message_names_the_pod_and_the_deployment_that_keeps_it() -> None:
    awaited = (pod(-1),)
    begin = "waits until the Pod of an earlier unit demo has ended: unit-demo-x"
    assert waiting_message(unit(), awaited, "") == begin
    assert waiting_message(unit(), awaited, "D belongs to E") == f"{begin}; D belongs to E"
