from datetime import UTC, datetime
from typing import Any

import pytest

from gpuruntime.models.encoding import codec
from gpuruntime.models.kubernetes.pods import Pod
from gpuruntime.reconcilers.unit.pod_failures import (
    MOST_TEXT,
    FailureKind,
    crash_of,
    current_pod,
    failure_of,
)

PULL = 'Back-off pulling image "nope": ErrImagePull: manifest unknown'
OUT_OF_MEMORY = "out of memory: the process took more than the unit's memory"
ENDED = {"exitCode": 1, "reason": "Error", "message": "no such model\n"}


def pod(name: str = "pod", *, created: int = 0, deleted: bool = False, **status: Any) -> Pod:
    moment = datetime(2025, 1, 1, 0, 0, created, tzinfo=UTC).isoformat()
    metadata = {"name": name, "creationTimestamp": moment}
    if deleted:
        metadata["deletionTimestamp"] = moment
    return codec.decode(codec.encode({"metadata": metadata, "status": status}), Pod)


def container(*, restarts: int = 0, ready: bool = False, last: Any = None, **state: Any) -> Any:
    return {
        "name": "runtime",
        "ready": ready,
        "restartCount": restarts,
        "state": state,
        "lastState": {"terminated": last} if last else {},
    }


def text_of(**status: Any) -> str:
    failure = failure_of([pod(**status)])
    return failure.message if failure else ""


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (container(waiting={"reason": "ContainerCreating"}), ""),
        (container(running={}), ""),
        (
            container(waiting={"reason": "ImagePullBackOff", "message": PULL}),
            f"pod/runtime: ImagePullBackOff: {PULL}",
        ),
        (container(terminated=ENDED), "pod/runtime: Error: exit code 1: no such model"),
        (
            container(terminated={"exitCode": 137, "reason": "OOMKilled"}),
            f"pod/runtime: OOMKilled: exit code 137: {OUT_OF_MEMORY}",
        ),
        (
            container(
                terminated={"exitCode": 137, "reason": "OOMKilled", "message": "loaded 7 of 9\n"}
            ),
            f"pod/runtime: OOMKilled: exit code 137: {OUT_OF_MEMORY}: loaded 7 of 9",
        ),
        (container(restarts=1, ready=True, running={}, last=ENDED), ""),
    ],
    ids=[
        "creating",
        "running",
        "image cannot be pulled",
        "crashed",
        "out of memory",
        "out of memory, with last words",
        "running again after a crash",
    ],
)
def test_the_most_useful_message_is_reported(state: Any, text: str) -> None:
    assert text_of(containerStatuses=[state]) == text


def test_a_crash_loop_has_the_same_message_in_each_of_its_states() -> None:
    states = [
        container(restarts=1, terminated=ENDED, last=ENDED),
        container(restarts=1, waiting={"reason": "CrashLoopBackOff"}, last=ENDED),
        container(restarts=2, running={}, last=ENDED),
    ]
    texts = {text_of(containerStatuses=[each]) for each in states}
    assert texts == {"pod/runtime: CrashLoopBackOff: exit code 1: no such model"}


def test_init_containers_come_first_and_finished_ones_are_skipped() -> None:
    done = container(restarts=1, ready=True, terminated={"exitCode": 0}, last=ENDED)
    main = container(waiting={"reason": "ErrImagePull", "message": "no"})
    bad = container(terminated=ENDED) | {"name": "init"}
    assert text_of(initContainerStatuses=[done], containerStatuses=[main]).endswith("Pull: no")
    assert text_of(initContainerStatuses=[bad], containerStatuses=[main]).startswith("pod/init: ")


def test_an_unschedulable_pod_has_the_schedulers_message() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    failure = failure_of([pod(conditions=[condition | {"message": "0/3 nodes"}])])
    assert failure is not None
    assert (failure.kind, failure.message) == (FailureKind.UNSCHEDULABLE, "pod: 0/3 nodes")


def test_ended_and_terminating_pods_are_ignored() -> None:
    old = pod("old", created=9, phase="Failed", reason="Evicted")
    ending = pod(
        "ending", created=8, deleted=True, containerStatuses=[container(terminated=ENDED)]
    )
    new = pod("new", phase="Pending")
    assert current_pod([old, ending, new]) == new
    assert failure_of([old, ending, new]) is None
    alone = failure_of([old])
    assert alone is not None
    assert alone.message == "old: Evicted"


def test_a_running_container_is_remembered_to_have_crashed() -> None:
    again = container(restarts=2, ready=True, running={}, last=ENDED)
    assert crash_of([pod(containerStatuses=[again])]) is not None
    assert crash_of([pod(containerStatuses=[container(ready=True, running={})])]) is None


def test_a_pod_that_failed_without_a_reason_has_its_own_message() -> None:
    assert text_of(phase="Failed", message="the node was shut down") == (
        "pod: Failed: the node was shut down"
    )
    assert text_of(phase="Failed") == "pod: Failed"


def test_a_crash_loop_without_a_known_end_has_its_own_message() -> None:
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off 10s"}
    assert text_of(containerStatuses=[container(waiting=waiting)]) == (
        "pod/runtime: CrashLoopBackOff: back-off 10s"
    )


def test_a_long_message_of_a_container_is_cut() -> None:
    waiting = {"reason": "ErrImagePull", "message": "x" * 5_000}
    assert len(text_of(containerStatuses=[container(waiting=waiting)])) == MOST_TEXT


def test_a_pod_that_waits_for_a_gate_is_not_unschedulable() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    assert failure_of([pod(conditions=[condition])]) is None
    assert failure_of([]) is None
