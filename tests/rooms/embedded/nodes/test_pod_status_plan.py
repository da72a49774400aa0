"""The status of simulated Pods at each moment, in the kubelet's words."""

from datetime import timedelta
from typing import Any

import attrs
import pytest

from gpuruntime.embedded.kinds.pod_objects import ContainerState, Pod
from gpuruntime.embedded.nodes.container_timeline import NEVER
from gpuruntime.embedded.nodes.failures import CONTAINER, FAIL, FAIL_VARIABLE, RUN_SECONDS, Pace
from gpuruntime.embedded.nodes.pod_status_plan import (
    SIMULATED,
    TERMINATED,
    Sandbox,
    SimulatedStatus,
    ended,
    simulated_status,
)
from tests.rooms.embedded.builders import MOMENT, pod

PACE = Pace(
    start_seconds=1.0,
    init_seconds=2.0,
    ready_seconds=3.0,
    run_seconds=4.0,
    stop_seconds=1.0,
    settle_seconds=1.0,
)
SANDBOX = Sandbox(began_at=MOMENT, host_ip="10.0.0.1", pod_ip="10.1.0.1", pace=PACE)
PROBED = [{"name": "c", "image": "i", "readinessProbe": {"tcpSocket": {"port": 80}}}]


def at(of: Pod, offset: float) -> SimulatedStatus:
    return simulated_status(of, SANDBOX, offset, now=MOMENT + timedelta(seconds=offset))


def failing(how: str, **spec: Any) -> Pod:
    return pod(metadata={"annotations": {FAIL: how}}, nodeName="n", **spec)


def conditions(of: Pod, offset: float) -> dict[str, str]:
    return {each.type: each.status for each in at(of, offset).status.conditions}


def reason(of: Pod, offset: float) -> str:
    """Return the reason of the first container's state."""
    return _reason(at(of, offset).status.containerStatuses[0].state)


def _reason(state: ContainerState) -> str:
    if state.terminated:
        return state.terminated.reason
    return state.waiting.reason if state.waiting else "Running"


def moments(of: Pod, until: float) -> list[tuple[float, str]]:
    """Return the offsets at which the first container's state changes, and the new states."""
    found, offset = [], 0.0
    while offset <= until:
        found.append((offset, reason(of, offset)))
        offset = at(of, offset).next_at
    return found


def notes(of: Pod, offset: float) -> list[str]:
    return [f"{note.reason}: {note.message}" for _, _, note in at(of, offset).notes]


def test_a_pod_is_created_and_then_runs_and_is_ready() -> None:
    plain = pod()
    assert (at(plain, 0).status.phase, reason(plain, 0)) == ("Pending", "ContainerCreating")
    assert conditions(plain, 0) == {
        "PodReadyToStartContainers": "False",
        "Initialized": "True",
        "Ready": "False",
        "ContainersReady": "False",
        "PodScheduled": "True",
    }
    assert (at(plain, 0).status.podIP, at(plain, 0).next_at) == ("", 1.0)

    assert (at(plain, 1).status.phase, at(plain, 1).next_at) == ("Running", NEVER)
    assert set(conditions(plain, 1).values()) == {"True"}
    assert at(plain, 1).status.podIP == "10.1.0.1"
    assert notes(plain, 1) == [
        'Pulled: Container image "busybox:1.36" already present on machine',
        "Created: Created container: c",
        "Started: Started container c",
    ]


def test_a_simulated_pod_says_so_in_its_status() -> None:
    assert at(pod(), 0).status.message == SIMULATED
    container = at(pod(), 1).status.containerStatuses[0]
    assert container.containerID.startswith("simulated://")


def test_a_pod_with_a_readiness_probe_is_ready_later() -> None:
    probed = pod(containers=PROBED)
    unready = at(probed, 1).status
    assert (unready.phase, conditions(probed, 1)["Ready"]) == ("Running", "False")
    ready = next(each for each in unready.conditions if each.type == "Ready")
    assert (ready.reason, ready.message) == (
        "ContainersNotReady",
        "containers with unready status: [c]",
    )
    assert at(probed, 1).next_at == 4.0
    assert conditions(probed, 4)["Ready"] == "True"


def test_init_containers_run_one_by_one_before_the_others() -> None:
    both = pod(initContainers=[{"name": "a"}, {"name": "b"}])
    assert reason(both, 0) == "PodInitializing"
    running = at(both, 1).status
    assert running.phase == "Pending"
    assert [_reason(each.state) for each in running.initContainerStatuses] == [
        "Running",
        "PodInitializing",
    ]
    initialized = next(each for each in running.conditions if each.type == "Initialized")
    assert initialized.message == "containers with incomplete status: [a b]"
    later = at(both, 3).status
    assert [_reason(each.state) for each in later.initContainerStatuses] == [
        "Completed",
        "Running",
    ]
    assert at(both, 5).status.phase == "Running"


def test_a_sidecar_keeps_running_beside_the_others() -> None:
    helped = pod(initContainers=[{"name": "side", "restartPolicy": "Always"}])
    status = at(helped, 1).status
    assert status.phase == "Running"
    assert status.initContainerStatuses[0].state.running is not None
    assert set(conditions(helped, 1).values()) == {"True"}


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
def test_a_pod_that_may_end_succeeds(policy: str) -> None:
    work = pod(restartPolicy=policy)
    assert at(work, 4.9).status.phase == "Running"
    status = at(work, 5).status
    assert (status.phase, reason(work, 5)) == ("Succeeded", "Completed")
    ready = next(each for each in status.conditions if each.type == "Ready")
    assert (ready.status, ready.reason) == ("False", "PodCompleted")


def test_an_annotation_sets_how_long_a_container_runs() -> None:
    quick = pod(restartPolicy="Never", metadata={"annotations": {RUN_SECONDS: "0.5"}})
    assert at(quick, 1).next_at == 1.5


def test_a_crash_under_never_fails_the_pod_with_code_and_message() -> None:
    broken = failing("crash=3: disk is full", restartPolicy="Never")
    status = at(broken, 5).status
    terminated = status.containerStatuses[0].state.terminated
    assert terminated is not None
    assert (status.phase, terminated.exitCode, terminated.reason, terminated.message) == (
        "Failed",
        3,
        "Error",
        "disk is full",
    )
    assert at(broken, 5).next_at == NEVER


def test_a_crash_loop_restarts_at_once_and_then_backs_off_longer_each_time() -> None:
    looping = failing("crash: no GPU")
    assert moments(looping, 48) == [
        (0.0, "ContainerCreating"),
        (1.0, "Running"),
        (5.0, "Error"),
        (6.0, "Running"),
        (10.0, "Error"),
        (11.0, "CrashLoopBackOff"),
        (20.0, "Running"),
        (24.0, "Error"),
        (25.0, "CrashLoopBackOff"),
        (44.0, "Running"),
        (48.0, "Error"),
    ]
    container = at(looping, 11).status.containerStatuses[0]
    assert container.restartCount == 1
    assert container.state.waiting is not None
    assert container.state.waiting.message == (
        "back-off 10s restarting failed container=c pod=p_default(uid-p)"
    )
    last = container.lastState.terminated
    assert last is not None
    assert (last.exitCode, last.message) == (1, "no GPU")
    assert at(looping, 11).status.phase == "Running"
    assert conditions(looping, 11)["Ready"] == "False"


def test_the_longest_back_off_is_five_minutes() -> None:
    container = at(failing("crash"), 3600).status.containerStatuses[0]
    assert container.state.waiting is not None
    assert container.state.waiting.message.startswith("back-off 5m0s restarting")


def test_an_image_that_cannot_be_pulled_alternates_between_error_and_back_off() -> None:
    absent = failing("image-pull")
    assert moments(absent, 12) == [
        (0.0, "ContainerCreating"),
        (1.0, "ErrImagePull"),
        (2.0, "ImagePullBackOff"),
        (11.0, "ErrImagePull"),
        (12.0, "ImagePullBackOff"),
    ]
    waiting = at(absent, 2).status.containerStatuses[0].state.waiting
    assert waiting is not None
    assert waiting.message.startswith('Back-off pulling image "busybox:1.36": ErrImagePull: rpc')
    assert at(absent, 2).status.phase == "Pending"


def test_a_configuration_error_stays_and_shows_the_requested_message() -> None:
    broken = failing('config-error: secret "token" not found')
    assert moments(broken, 99)[1:] == [(1.0, "CreateContainerConfigError")]
    waiting = at(broken, 1).status.containerStatuses[0].state.waiting
    assert waiting is not None
    assert waiting.message == 'secret "token" not found'


def test_a_pod_can_run_and_never_be_ready() -> None:
    unready = failing("never-ready")
    assert (at(unready, 1).status.phase, at(unready, 1).next_at) == ("Running", NEVER)
    assert conditions(unready, 1000)["Ready"] == "False"


def test_a_failure_requested_by_a_variable_affects_its_container() -> None:
    containers = [
        {"name": "c"},
        {"name": "d", "env": [{"name": FAIL_VARIABLE, "value": "config-error"}]},
    ]
    statuses = at(pod(containers=containers), 1).status.containerStatuses
    assert [_reason(each.state) for each in statuses] == ["Running", "CreateContainerConfigError"]


def test_an_init_container_can_be_the_one_that_fails() -> None:
    annotations = {FAIL: "crash=2", CONTAINER: "prepare"}
    broken = pod(
        metadata={"annotations": annotations},
        restartPolicy="Never",
        initContainers=[{"name": "prepare"}],
    )
    status = at(broken, 3).status
    assert (status.phase, reason(broken, 3)) == ("Failed", "PodInitializing")
    looping = attrs.evolve(broken, spec=attrs.evolve(broken.spec, restartPolicy="Always"))
    assert (at(looping, 3).status.phase, reason(looping, 99)) == ("Pending", "PodInitializing")


@pytest.mark.parametrize("asked", ["explode", "crash=", "crash=many", ""])
def test_a_failure_that_cannot_be_parsed_lists_the_known_ones(asked: str) -> None:
    if not asked:
        assert reason(failing(asked), 1) == "Running"
        return
    waiting = at(failing(asked), 1).status.containerStatuses[0].state.waiting
    assert waiting is not None
    assert "image-pull, config-error, crash, never-ready" in waiting.message


def test_a_stopped_pod_has_no_running_or_ready_container() -> None:
    running = attrs.evolve(pod(), status=at(pod(), 1).status)
    status = ended(running, now=MOMENT)
    terminated = status.containerStatuses[0].state.terminated
    assert terminated is not None
    assert terminated.exitCode == TERMINATED
    assert (status.phase, status.containerStatuses[0].ready) == ("Failed", False)
    ready = next(each for each in status.conditions if each.type == "Ready")
    assert ready.status == "False"


def test_conditions_change_their_time_only_with_their_status() -> None:
    probed = pod(containers=PROBED)
    first = at(probed, 0).status
    second = at(attrs.evolve(probed, status=first), 1).status
    third = at(attrs.evolve(probed, status=second), 4).status
    moved = {each.type: each.lastTransitionTime for each in third.conditions}
    assert moved["PodScheduled"] == MOMENT
    assert moved["PodReadyToStartContainers"] == MOMENT + timedelta(seconds=1)
    assert moved["Ready"] == MOMENT + timedelta(seconds=4)
