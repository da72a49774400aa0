"""A ReplicaSet keeps its number of Pods and deletes the least useful first."""

from datetime import timedelta

import pytest

from gpuruntime.embedded.kinds.pod_objects import Pod
from gpuruntime.embedded.workloads.replicaset_plan import decide, is_available, replica_set_status
from tests.rooms.embedded.builders import MOMENT, pod, replica_set

READY = {"type": "Ready", "status": "True", "lastTransitionTime": "2025-01-01T00:00:00Z"}


def running(name: str, **metadata: object) -> Pod:
    return pod(
        name,
        metadata=metadata,
        nodeName="n",
        status={"phase": "Running", "conditions": [READY]},
    )


def test_ended_and_terminating_pods_are_replaced() -> None:
    pods = [
        running("a"),
        pod("failed", status={"phase": "Failed"}),
        running("ending", deletionTimestamp="2025-01-01T00:00:30Z"),
    ]
    assert decide(replica_set("web", replicas=2), pods).missing == 1


@pytest.mark.parametrize(
    "worse",
    [
        pod("z", status={"phase": "Pending"}),
        pod("z", nodeName="n", status={"phase": "Pending"}),
        pod("z", nodeName="n", status={"phase": "Running"}),
        running("z", creationTimestamp="2025-01-01T00:00:09Z"),
    ],
    ids=["not assigned", "pending", "not ready", "made later"],
)
def test_the_least_useful_pod_is_deleted_first(worse: Pod) -> None:
    better = running("a", creationTimestamp="2025-01-01T00:00:01Z")
    for pods in ([worse, better], [better, worse]):
        assert decide(replica_set("web", replicas=1), pods).surplus == (worse,)


def test_equal_pods_are_chosen_the_same_way_in_any_order() -> None:
    pods = [running(name) for name in "abc"]
    one = decide(replica_set("web", replicas=1), pods)
    assert one == decide(replica_set("web", replicas=1), reversed(pods))


def test_the_status_counts_pods_and_shows_the_generation() -> None:
    status = replica_set_status(
        replica_set("web", replicas=3), [running("a"), pod("b")], failure="", now=MOMENT
    )
    assert (status.replicas, status.fullyLabeledReplicas) == (2, 2)
    assert (status.readyReplicas, status.availableReplicas) == (1, 1)
    assert status.observedGeneration == 1


def test_a_ready_pod_is_available_only_after_the_required_seconds() -> None:
    ready = running("a")
    assert not is_available(ready, 10, MOMENT + timedelta(seconds=9))
    assert is_available(ready, 10, MOMENT + timedelta(seconds=10))
    assert is_available(ready, 0, MOMENT)


def test_a_failed_creation_is_a_condition_until_it_succeeds() -> None:
    failing = replica_set("web", replicas=1)
    status = replica_set_status(failing, [], failure="quota", now=MOMENT)
    (condition,) = status.conditions
    assert (condition.type, condition.reason) == ("ReplicaFailure", "FailedCreate")
    assert condition.message == "quota"
    assert replica_set_status(failing, [], failure="", now=MOMENT).conditions == ()
