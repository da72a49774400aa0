"""The conditions of a Deployment during its life, in the words of the real controller."""

import json
from datetime import timedelta

import attrs

from gpuruntime.embedded.controllers.object_patches import wire
from gpuruntime.embedded.kinds.workload_objects import DeploymentStatus, ReplicaSet, find_condition
from gpuruntime.embedded.workloads.children import TEMPLATE_HASH, template_hash
from gpuruntime.embedded.workloads.deployment_plan import Observed
from gpuruntime.embedded.workloads.deployment_status import deployment_status, seconds_to_deadline
from tests.rooms.embedded.builders import MOMENT, TEMPLATE, deployment, replica_set

HASH = template_hash(json.dumps(TEMPLATE).encode())
LATER = MOMENT + timedelta(seconds=5)


def new_set(size: int, **status: object) -> ReplicaSet:
    labels = {"labels": {TEMPLATE_HASH: HASH}}
    return replica_set("web-x", metadata=labels, replicas=size, status=status)


def observed(status: DeploymentStatus, *sets: ReplicaSet, replicas: int = 2) -> Observed:
    shown = attrs.evolve(deployment(replicas=replicas), status=status)
    return Observed(deployment=shown, replica_sets=sets)


def reasons(status: DeploymentStatus) -> dict[str, tuple[str, str]]:
    return {each.type: (each.status, each.reason) for each in status.conditions}


def test_a_rollout_is_reported_as_created_then_updated_then_available() -> None:
    created = deployment_status(observed(DeploymentStatus()), now=MOMENT, created="web-x")
    assert reasons(created) == {
        "Available": ("False", "MinimumReplicasUnavailable"),
        "Progressing": ("True", "NewReplicaSetCreated"),
    }

    starting = observed(created, new_set(2, replicas=2))
    updated = deployment_status(starting, now=LATER)
    assert reasons(updated)["Progressing"] == ("True", "ReplicaSetUpdated")
    assert (updated.updatedReplicas, updated.unavailableReplicas) == (2, 2)

    running = observed(updated, new_set(2, replicas=2, readyReplicas=2, availableReplicas=2))
    available = deployment_status(running, now=LATER)
    assert reasons(available) == {
        "Available": ("True", "MinimumReplicasAvailable"),
        "Progressing": ("True", "NewReplicaSetAvailable"),
    }
    progressing = find_condition(available.conditions, "Progressing")
    assert progressing is not None
    assert progressing.message == 'ReplicaSet "web-x" has successfully progressed.'
    assert (progressing.lastUpdateTime, progressing.lastTransitionTime) == (LATER, MOMENT)


def test_a_status_is_written_once() -> None:
    view = observed(DeploymentStatus(), new_set(2, replicas=2))
    first = deployment_status(view, now=MOMENT)
    again = attrs.evolve(view, deployment=attrs.evolve(view.deployment, status=first))
    assert deployment_status(again, now=LATER) == first


def test_counts_of_zero_are_omitted() -> None:
    status = deployment_status(observed(DeploymentStatus(), new_set(0), replicas=0), now=MOMENT)
    assert set(wire(status)) == {"observedGeneration", "conditions"}


def test_a_rollout_without_progress_is_late_after_its_deadline() -> None:
    started = deployment_status(observed(DeploymentStatus()), now=MOMENT, created="web-x")
    stuck = observed(started, new_set(2))
    assert seconds_to_deadline(stuck, now=MOMENT) == 601.0

    late = deployment_status(stuck, now=MOMENT + timedelta(seconds=601))
    assert reasons(late)["Progressing"] == ("False", "ProgressDeadlineExceeded")
    still = observed(late, new_set(2))
    assert deployment_status(still, now=MOMENT + timedelta(seconds=602)) == late


def test_ending_old_pods_count_as_progress() -> None:
    old = replica_set("web-old", status={"replicas": 2})
    before = deployment_status(observed(DeploymentStatus(), new_set(2), old), now=MOMENT)
    ending = replica_set("web-old", status={"replicas": 1})
    stuck = observed(before, new_set(2), ending)
    much_later = deployment_status(stuck, now=MOMENT + timedelta(seconds=601))
    assert reasons(much_later)["Progressing"] == ("True", "ReplicaSetUpdated")


def test_a_finished_rollout_is_never_late() -> None:
    done = new_set(2, replicas=2, availableReplicas=2)
    finished = deployment_status(observed(DeploymentStatus(), done), now=MOMENT)
    broken = observed(finished, new_set(2, replicas=2))
    assert seconds_to_deadline(broken, now=MOMENT) is None
    much_later = deployment_status(broken, now=MOMENT + timedelta(hours=1))
    assert reasons(much_later)["Progressing"] == ("True", "NewReplicaSetAvailable")


def test_a_paused_rollout_reports_the_pause_and_its_end() -> None:
    paused = Observed(deployment=deployment(paused=True))
    first = deployment_status(paused, now=MOMENT)
    assert reasons(first)["Progressing"] == ("Unknown", "DeploymentPaused")
    resumed = deployment_status(observed(first, new_set(2)), now=LATER)
    assert reasons(resumed)["Progressing"] == ("Unknown", "DeploymentResumed")
    moving = deployment_status(observed(resumed, new_set(2, replicas=2)), now=LATER)
    assert reasons(moving)["Progressing"] == ("True", "ReplicaSetUpdated")


def test_a_deployment_shows_that_its_replica_set_cannot_create_pods() -> None:
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}
    status = deployment_status(
        observed(DeploymentStatus(), new_set(2, conditions=[failure])), now=MOMENT
    )
    assert reasons(status)["ReplicaFailure"] == ("True", "FailedCreate")

    healed = deployment_status(observed(status, new_set(2)), now=LATER)
    assert "ReplicaFailure" not in reasons(healed)
