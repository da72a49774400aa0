from datetime import UTC, datetime
from typing import Any

import attrs
import pytest

from gpuruntime.bus.messages import WorkerState
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.functions import Framework, Serverless, WorkerOf
from gpuruntime.models.kinds.templates import Template
from gpuruntime.models.kinds.units import (
    GPUUnit,
    GPUUnitSpec,
    GPUUnitStatus,
    StorageMount,
    Timeline,
)
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.serverless.scaling.heartbeats import LastHeartbeat
from gpuruntime.serverless.scaling.observation import (
    FirstSeen,
    Moment,
    forbidden,
    is_current,
    worker_of,
)
from gpuruntime.serverless.scaling.plan import SILENT_SECONDS, Shortage, Worker, WorkerPhase

WHEN = datetime(2026, 1, 1, tzinfo=UTC)
FUNCTION = Serverless(requestID="echo")
LISTENING = Moment(now=100.0, hearing_since=0.0)


def template(**spec: Any) -> GPUUnit:
    return GPUUnit(
        metadata=ObjectMeta(name="echo", uid="t", generation=3),
        spec=GPUUnitSpec(**{"specName": "g1", "image": "v1", "serverless": FUNCTION, **spec}),
    )


def unit(reason: str = "", *, is_ready: bool = False, was_ready: bool = False) -> GPUUnit:
    """A worker made from the template as it is."""
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
)
def test_the_unit_says_how_far_a_worker_is(worker: GPUUnit, phase: WorkerPhase) -> None:
    assert seen(worker, heard()).phase is phase


def test_a_worker_that_was_ready_and_is_silent_is_adrift_and_a_new_one_is_on_its_way() -> None:
    assert seen(unit("DeploymentProgressing", was_ready=True)).phase is WorkerPhase.ADRIFT
    assert seen(unit("DeploymentProgressing")).phase is WorkerPhase.STARTING


def test_a_worker_that_speaks_is_not_adrift() -> None:
    told = seen(unit("DeploymentProgressing", was_ready=True), heard())
    assert told.phase is WorkerPhase.STARTING


def test_nobody_is_silent_whom_we_could_not_have_heard() -> None:
    worker = unit("DeploymentProgressing", was_ready=True)
    away = Moment(now=100.0, hearing_since=None)
    just_back = Moment(now=100.0, hearing_since=100.0 - SILENT_SECONDS + 1)
    for moment in (away, just_back):
        found = seen(worker, heard(ago=90), moment)
        assert (found.is_silent, found.phase) == (False, WorkerPhase.STARTING)


@pytest.mark.parametrize("state", [WorkerState.DRAINING, WorkerState.DRAINED])
@pytest.mark.parametrize("reason", ["", "DeploymentProgressing", "DeploymentReady"])
def test_a_worker_that_drains_though_its_unit_was_not_told_to_is_adrift(
    state: WorkerState, reason: str
) -> None:
    worker = unit(reason, is_ready=reason == "DeploymentReady")
    found = seen(worker, heard(state=state))
    assert (found.phase, found.has_withdrawn) == (WorkerPhase.ADRIFT, True)


def test_a_worker_that_was_told_to_drain_drains() -> None:
    worker = marked(unit("DeploymentReady", is_ready=True), annotations={labels.DRAINING: "then"})
    assert seen(worker, heard(state=WorkerState.DRAINED)).phase is WorkerPhase.DRAINING


def test_a_worker_that_drains_while_its_container_fails_is_a_failed_one() -> None:
    found = seen(unit("PodStartupFailed"), heard(state=WorkerState.DRAINED))
    assert found.phase is WorkerPhase.FAILED


@pytest.mark.parametrize(
    ("told", "moment"),
    [
        (heard(ago=SILENT_SECONDS, state=WorkerState.DRAINED), LISTENING),
        (heard(state=WorkerState.DRAINED), Moment(now=100.0, hearing_since=None)),
        (heard(state=WorkerState.DRAINED, uid=""), LISTENING),
    ],
    ids=["silent since", "nobody can hear", "maybe another one of the name"],
)
def test_only_a_worker_that_goes_on_telling_that_it_drains_is_taken_at_its_word(
    told: LastHeartbeat, moment: Moment
) -> None:
    found = seen(unit("DeploymentReady", is_ready=True), told, moment)
    assert (found.phase, found.has_withdrawn) == (WorkerPhase.READY, False)


def test_for_how_long_something_is_so_counts_from_the_first_look() -> None:
    sightings = FirstSeen()
    adrift = unit("PodUnschedulable")
    first = seen(adrift, heard(), sightings=sightings)
    later = seen(adrift, heard(), Moment(now=160.0, hearing_since=0.0), sightings)
    assert (first.since_seconds, later.since_seconds) == (0, 60)


def test_who_was_found_meanwhile_is_lost_for_the_first_time_again() -> None:
    sightings = FirstSeen()
    seen(unit("PodUnschedulable"), heard(), sightings=sightings)
    seen(unit("DeploymentReady", is_ready=True), heard(), sightings=sightings)
    again = seen(
        unit("PodUnschedulable"), heard(), Moment(now=160.0, hearing_since=0.0), sightings
    )
    assert again.since_seconds == 0


def test_what_is_remembered_of_workers_that_are_gone_goes_with_them() -> None:
    sightings = FirstSeen()
    seen(unit("PodUnschedulable"), heard(), sightings=sightings)
    sightings.keep(set())
    assert not sightings.adrift


def test_a_worker_that_fell_silent_is_no_longer_busy() -> None:
    ready = unit("DeploymentReady", is_ready=True)
    assert seen(ready, heard(busy=2)).busy == 2
    assert seen(ready, heard(ago=SILENT_SECONDS, busy=2)).busy == 0


@pytest.mark.parametrize(
    "changed",
    [
        {"image": "v2"},
        {"template": Template(args=("x",))},
        {"storageMounts": (StorageMount(name="data", mountPath="/data"),)},
        {"serverless": attrs.evolve(FUNCTION, concurrency=2)},
        {"serverless": attrs.evolve(FUNCTION, framework=Framework(invokePath="/other"))},
        {"serverless": attrs.evolve(FUNCTION, requestID="other")},
    ],
)
def test_what_runs_in_a_worker_makes_it_outdated(changed: dict[str, Any]) -> None:
    assert is_current(unit(), template())
    assert not is_current(unit(), template(**changed))


def test_a_worker_of_another_storage_than_the_function_was_given_is_outdated() -> None:
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


@pytest.mark.parametrize(
    "limit",
    [
        {"minAvailableCount": 3},
        {"maxWorkers": 3},
        {"idleTimeoutSeconds": 3},
        {"timeoutSeconds": 3},
        {"maxAttempts": 3},
    ],
)
def test_limits_make_no_worker_outdated(limit: dict[str, Any]) -> None:
    assert is_current(unit(), template(serverless=attrs.evolve(FUNCTION, **limit)))


def refused(reason: str, generation: int = 3) -> GPUUnit:
    condition = Condition(
        type="Ready", status="False", reason=reason, observedGeneration=generation
    )
    return attrs.evolve(template(), status=GPUUnitStatus(conditions=(condition,)))


def test_a_function_may_have_workers_before_the_manager_has_spoken() -> None:
    assert forbidden(template()) is None


def test_the_managers_no_counts_for_the_spec_that_it_has_seen() -> None:
    assert forbidden(refused("ServerlessConfigInvalid")) is Shortage.INVALID
    assert forbidden(refused("OperationConflict")) is Shortage.INVALID
    assert forbidden(refused("ServerlessConfigInvalid", generation=2)) is None
    assert forbidden(refused("QueueUnknown")) is Shortage.NO_QUEUE
    assert forbidden(refused("ScaledToZero")) is None


def test_a_spec_that_breaks_a_rule_is_refused_without_the_manager() -> None:
    mounts = (StorageMount(name="data", mountPath="/data"),)
    assert forbidden(template(storageMounts=mounts)) is Shortage.INVALID


def test_suspended_ones_and_those_that_go_have_no_workers() -> None:
    assert forbidden(template(suspended=True)) is Shortage.SUSPENDED
    assert forbidden(marked(template(), deletionTimestamp=WHEN)) is Shortage.NO_TEMPLATE
