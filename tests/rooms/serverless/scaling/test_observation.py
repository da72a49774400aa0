from datetime import UTC, datetime
from typing import Any

import attrs
import pytest

from gpuruntime.bus.messages import WorkerState
from gpuruntime.models.encoding.members import shared_names
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.functions import Framework, Serverless, WorkerOf
from gpuruntime.models.kinds.templates import Template
from gpuruntime.models.kinds.units import (
    Access,
    GPUUnit,
    GPUUnitSpec,
    GPUUnitStatus,
    StorageMount,
    Timeline,
)
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.models.requests.units import CreateUnit
from gpuruntime.serverless.scaling.heartbeats import LastHeartbeat
from gpuruntime.serverless.scaling.history import FirstSeen
from gpuruntime.serverless.scaling.observation import (
    Moment,
    forbidden,
    is_current,
    worker_of,
)
from gpuruntime.serverless.scaling.worker_plan import SILENT_SECONDS, Shortage, Worker, WorkerPhase

WHEN = datetime(2026, 1, 1, tzinfo=UTC)
FUNCTION = Serverless(requestID="echo")
LISTENING = Moment(now=100.0, receiving_since=0.0)


def template(**spec: Any) -> GPUUnit:
    return GPUUnit(
        metadata=ObjectMeta(name="echo", uid="t", generation=3),
        spec=GPUUnitSpec(**{"specName": "g1", "image": "v1", "serverless": FUNCTION, **spec}),
    )


def unit(reason: str = "", *, is_ready: bool = False, was_ready: bool = False) -> GPUUnit:
    """Return a worker created from the present template."""
    condition = Condition(type="Ready", status="True" if is_ready else "False", reason=reason)
    owner = WorkerOf(name="echo", uid="t")
    return GPUUnit(
        metadata=ObjectMeta(name="echo-w-1", uid="w"),
        spec=attrs.evolve(template().spec, serverless=attrs.evolve(FUNCTION, workerOf=owner)),
        status=GPUUnitStatus(
            conditions=(condition,) if reason else (),
            timeline=Timeline(readyAt=WHEN if was_ready else None),
        ),
    )


def marked(worker: GPUUnit, **metadata: Any) -> GPUUnit:
    return attrs.evolve(worker, metadata=attrs.evolve(worker.metadata, **metadata))


def heard(
    ago: float = 1.0, state: WorkerState = WorkerState.READY, busy: int = 0, uid: str = "w"
) -> LastHeartbeat:
    return LastHeartbeat(uid=uid, state=state, busy=busy, at=LISTENING.now - ago)


def seen(
    worker: GPUUnit,
    told: LastHeartbeat | None = None,
    moment: Moment = LISTENING,
    sightings: FirstSeen | None = None,
) -> Worker:
    return worker_of(
        worker,
        template(),
        told,
        sightings=FirstSeen() if sightings is None else sightings,
        moment=moment,
    )


@pytest.mark.parametrize(
    ("worker", "phase"),
    [
        (unit(), WorkerPhase.STARTING),
        (unit("DeploymentProgressing"), WorkerPhase.STARTING),
        (unit("DeploymentReady", is_ready=True), WorkerPhase.READY),
        (unit("PodStartupFailed"), WorkerPhase.FAILED),
        (unit("PodUnschedulable"), WorkerPhase.ADRIFT),
        (marked(unit(), annotations={labels.DRAINING: "then"}), WorkerPhase.DRAINING),
        (marked(unit(), deletionTimestamp=WHEN), WorkerPhase.GONE),
    ],
    ids=["new", "progressing", "ready", "failed", "unschedulable", "draining", "deleted"],
)
def test_the_unit_determines_the_workers_phase(worker: GPUUnit, phase: WorkerPhase) -> None:
    assert seen(worker, heard()).phase is phase


def test_a_silent_worker_is_adrift_if_it_was_ready_and_starting_if_not() -> None:
    assert seen(unit("DeploymentProgressing", was_ready=True)).phase is WorkerPhase.ADRIFT
    assert seen(unit("DeploymentProgressing")).phase is WorkerPhase.STARTING


def test_a_worker_with_heartbeats_is_not_adrift() -> None:
    told = seen(unit("DeploymentProgressing", was_ready=True), heard())
    assert told.phase is WorkerPhase.STARTING


def test_a_worker_is_not_silent_while_heartbeats_could_not_be_received() -> None:
    worker = unit("DeploymentProgressing", was_ready=True)
    away = Moment(now=100.0, receiving_since=None)
    just_back = Moment(now=100.0, receiving_since=100.0 - SILENT_SECONDS + 1)
    for moment in (away, just_back):
        found = seen(worker, heard(ago=90), moment)
        assert (found.is_silent, found.phase) == (False, WorkerPhase.STARTING)


@pytest.mark.parametrize("state", [WorkerState.DRAINING, WorkerState.DRAINED])
@pytest.mark.parametrize("reason", ["", "DeploymentProgressing", "DeploymentReady"])
def test_a_worker_that_drains_without_a_mark_on_its_unit_is_adrift(
    state: WorkerState, reason: str
) -> None:
    worker = unit(reason, is_ready=reason == "DeploymentReady")
    found = seen(worker, heard(state=state))
    assert (found.phase, found.has_withdrawn) == (WorkerPhase.ADRIFT, True)


def test_a_worker_with_a_drain_mark_is_draining() -> None:
    worker = marked(unit("DeploymentReady", is_ready=True), annotations={labels.DRAINING: "then"})
    assert seen(worker, heard(state=WorkerState.DRAINED)).phase is WorkerPhase.DRAINING


def test_a_worker_that_drains_while_its_container_fails_has_failed() -> None:
    found = seen(unit("PodStartupFailed"), heard(state=WorkerState.DRAINED))
    assert found.phase is WorkerPhase.FAILED


@pytest.mark.parametrize(
    ("told", "moment"),
    [
        (heard(ago=SILENT_SECONDS, state=WorkerState.DRAINED), LISTENING),
        (heard(state=WorkerState.DRAINED), Moment(now=100.0, receiving_since=None)),
        (heard(state=WorkerState.DRAINED, uid=""), LISTENING),
    ],
    ids=["silent since", "no session", "perhaps an earlier worker"],
)
def test_only_recent_heartbeats_of_draining_count(told: LastHeartbeat, moment: Moment) -> None:
    found = seen(unit("DeploymentReady", is_ready=True), told, moment)
    assert (found.phase, found.has_withdrawn) == (WorkerPhase.READY, False)


def test_the_duration_of_a_state_counts_from_its_first_observation() -> None:
    sightings = FirstSeen()
    adrift = unit("PodUnschedulable")
    first = seen(adrift, heard(), sightings=sightings)
    later = seen(adrift, heard(), Moment(now=160.0, receiving_since=0.0), sightings)
    assert (first.since_seconds, later.since_seconds) == (0, 60)


def test_a_worker_that_recovered_is_lost_for_the_first_time_again() -> None:
    sightings = FirstSeen()
    seen(unit("PodUnschedulable"), heard(), sightings=sightings)
    seen(unit("DeploymentReady", is_ready=True), heard(), sightings=sightings)
    again = seen(
        unit("PodUnschedulable"), heard(), Moment(now=160.0, receiving_since=0.0), sightings
    )
    assert again.since_seconds == 0


def test_observations_of_deleted_workers_are_forgotten() -> None:
    sightings = FirstSeen()
    seen(unit("PodUnschedulable"), heard(), sightings=sightings)
    sightings.keep(set())
    assert not sightings.adrift


def test_a_silent_worker_is_no_longer_busy() -> None:
    ready = unit("DeploymentReady", is_ready=True)
    assert seen(ready, heard(busy=2)).busy == 2
    assert seen(ready, heard(ago=SILENT_SECONDS, busy=2)).busy == 0


@attrs.frozen(kw_only=True, slots=True)
class Change:
    """Another value of a field, and whether workers that run must be replaced for it."""

    value: Any
    replaces: bool = True


# Each field that a worker takes over from its template needs a row.
OF_TEMPLATE = {
    "specName": Change(value="g2"),
    "image": Change(value="v2"),
    "template": Change(value=Template(args=("x",))),
    "access": Change(value=Access(readiness="none"), replaces=False),
    "storageMounts": Change(value=(StorageMount(name="data", mountPath="/data"),)),
    "imagePullSecrets": Change(value=("hub",)),
}
OF_FUNCTION = {
    "requestID": Change(value="other"),
    "minAvailableCount": Change(value=3, replaces=False),
    "maxWorkers": Change(value=3, replaces=False),
    "idleTimeoutSeconds": Change(value=3, replaces=False),
    "concurrency": Change(value=2),
    "timeoutSeconds": Change(value=3, replaces=False),
    "maxAttempts": Change(value=3, replaces=False),
    "update": Change(value="Recreate", replaces=False),
    "framework": Change(value=Framework(invokePath="/other")),
}


def test_every_field_of_a_worker_is_in_these_tables() -> None:
    assert {*OF_TEMPLATE, "serverless"} == {*shared_names(GPUUnitSpec, CreateUnit)}
    assert {*OF_FUNCTION, "workerOf"} == {*attrs.fields_dict(Serverless)}


@pytest.mark.parametrize("field", OF_TEMPLATE)
def test_a_changed_template_outdates_its_workers(field: str) -> None:
    change = OF_TEMPLATE[field]
    assert is_current(unit(), template())
    assert is_current(unit(), template(**{field: change.value})) is not change.replaces


@pytest.mark.parametrize("field", OF_FUNCTION)
def test_a_changed_function_outdates_its_workers_but_for_limits(field: str) -> None:
    change = OF_FUNCTION[field]
    function = attrs.evolve(FUNCTION, **{field: change.value})
    assert is_current(unit(), template(serverless=function)) is not change.replaces


def test_a_worker_with_another_storage_than_the_function_is_outdated() -> None:
    marks: tuple[dict[str, str], ...] = (
        {},
        {labels.STORAGE_UIDS: "data=1"},
        {labels.STORAGE_UIDS: "data=2"},
    )
    workers, templates = (
        [attrs.evolve(each, metadata=attrs.evolve(each.metadata, annotations=m)) for m in marks]
        for each in (unit(), template())
    )
    found = [[is_current(worker, each) for each in templates] for worker in workers]
    assert found == [[True, False, False], [False, True, False], [False, False, True]]


def refused(reason: str, generation: int = 3) -> GPUUnit:
    condition = Condition(
        type="Ready", status="False", reason=reason, observedGeneration=generation
    )
    return attrs.evolve(template(), status=GPUUnitStatus(conditions=(condition,)))


def test_a_function_may_have_workers_before_the_manager_reports_on_it() -> None:
    assert forbidden(template()) is None


def test_the_managers_refusal_counts_for_the_generation_it_observed() -> None:
    assert forbidden(refused("ServerlessConfigInvalid")) is Shortage.INVALID
    assert forbidden(refused("OperationConflict")) is Shortage.INVALID
    assert forbidden(refused("ServerlessConfigInvalid", generation=2)) is None
    assert forbidden(refused("QueueUnknown")) is Shortage.NO_QUEUE
    assert forbidden(refused("ScaledToZero")) is None


def test_an_invalid_spec_is_refused_without_the_manager() -> None:
    mounts = (StorageMount(name="data", mountPath="/data"),)
    assert forbidden(template(storageMounts=mounts)) is Shortage.INVALID


def test_suspended_and_terminating_templates_have_no_workers() -> None:
    assert forbidden(template(suspended=True)) is Shortage.SUSPENDED
    assert forbidden(marked(template(), deletionTimestamp=WHEN)) is Shortage.NO_TEMPLATE
