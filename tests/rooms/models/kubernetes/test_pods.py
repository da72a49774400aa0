"""A Pod's status is read as far as it shows why a unit runs or does not."""

from datetime import UTC, datetime

import pytest

from gpuruntime.models.encoding.codec import decode
from gpuruntime.models.kubernetes.pods import (
    PODS,
    ContainerState,
    ContainerStatus,
    Pod,
    Terminated,
    Waiting,
)

CRASHING = b"""{
  "kind": "Pod", "apiVersion": "v1",
  "metadata": {"name": "unit-a-5d", "namespace": "n", "managedFields": [{"manager": "kubelet"}]},
  "spec": {"nodeName": "gpu-0", "containers": [{"name": "runtime", "image": "a:1"}]},
  "status": {
    "phase": "Running", "podIP": "10.0.0.7", "startTime": "2026-03-01T12:00:00Z",
    "conditions": [
      {"type": "PodScheduled", "status": "True", "lastProbeTime": null,
       "lastTransitionTime": "2026-03-01T12:00:00Z"},
      {"type": "Ready", "status": "False", "lastProbeTime": null,
       "lastTransitionTime": "2026-03-01T12:00:00Z", "reason": "ContainersNotReady"}],
    "containerStatuses": [
      {"name": "runtime", "ready": false, "restartCount": 3, "started": false,
       "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}},
       "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled",
          "startedAt": "2026-03-01T12:00:01Z", "finishedAt": "2026-03-01T12:00:09Z"}}}]
  }
}"""
READY = b"""{"metadata": {"name": "a"%s}, "status": {"conditions": [
  {"type": "Ready", "status": "%s"}, {"type": "ContainersReady", "status": "True"}]}}"""


def test_a_container_has_its_waiting_reason_and_its_last_termination() -> None:
    pod = decode(CRASHING, Pod)

    assert pod.spec.nodeName == "gpu-0"
    assert pod.status.containerStatuses == (
        ContainerStatus(
            name="runtime",
            restartCount=3,
            state=ContainerState(
                waiting=Waiting(reason="CrashLoopBackOff", message="back-off 40s")
            ),
            lastState=ContainerState(
                terminated=Terminated(
                    exitCode=137,
                    reason="OOMKilled",
                    startedAt=datetime(2026, 3, 1, 12, 0, 1, tzinfo=UTC),
                    finishedAt=datetime(2026, 3, 1, 12, 0, 9, tzinfo=UTC),
                )
            ),
        ),
    )


def test_conditions_are_found_by_their_type() -> None:
    pod = decode(CRASHING, Pod)

    scheduled = pod.condition("PodScheduled")
    assert scheduled is not None
    assert scheduled.is_true
    assert pod.condition("Initialized") is None


@pytest.mark.parametrize(
    ("metadata", "status", "is_ready"),
    [
        (b"", b"True", True),
        (b"", b"False", False),
        (b', "deletionTimestamp": "2026-03-01T12:00:00Z"', b"True", False),
    ],
)
def test_a_pod_is_ready_until_it_is_terminating(
    metadata: bytes, status: bytes, is_ready: bool
) -> None:
    assert decode(READY % (metadata, status), Pod).is_ready is is_ready


def test_a_pod_without_a_status_is_not_ready() -> None:
    assert not decode(b'{"metadata": {"name": "a"}, "status": {"phase": "Pending"}}', Pod).is_ready


def test_pods_of_all_namespaces_have_one_path() -> None:
    assert PODS.path() == "/api/v1/pods"
