"""Tests of the control plane: it starts, runs Pods, survives the loss of a program, and ends."""

from pathlib import Path

import pytest

from tests.eventually import eventually_blocking
from tests.proofs.real_cluster import binaries
from tests.proofs.real_cluster.controlplane import (
    ControlPlane,
    ControlPlaneError,
    Options,
    control_plane,
)

pytestmark = pytest.mark.cluster

DEADLINE_SECONDS = 30.0
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: worker}
spec:
  selector: {matchLabels: {app: worker}}
  template:
    metadata: {labels: {app: worker}}
    spec:
      containers:
      - {name: main, image: worker, resources: {limits: {nvidia.com/gpu: 1}}}
"""


def test_a_pod_with_a_gpu_runs_on_a_fake_node(cluster: ControlPlane) -> None:
    cluster.kubectl("create", "namespace", "harness")
    cluster.kubectl("-n", "harness", "apply", "-f", "-", stdin=DEPLOYMENT)
    wait = ("wait", "deployment/worker", "--for=condition=Available", "--timeout=30s")
    assert "condition met" in cluster.kubectl("-n", "harness", *wait)


def test_the_audit_log_contains_a_write(cluster: ControlPlane) -> None:
    cluster.kubectl("create", "namespace", "audited")

    def is_noted() -> bool:
        return any(
            event["verb"] == "create" and event["objectRef"].get("name") == "audited"
            for event in cluster.audit_events()
            if "objectRef" in event
        )

    eventually_blocking(is_noted, within_seconds=DEADLINE_SECONDS)


def test_a_failing_kubectl_reports_its_reason(cluster: ControlPlane) -> None:
    with pytest.raises(ControlPlaneError, match="NotFound"):
        cluster.kubectl("get", "namespace", "nowhere")


def test_a_second_control_plane_runs_beside_the_first_with_its_own_options(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    options = Options(nodes=3, gpus_per_node=4, apiserver_flags=("--event-ttl=1m",))
    with control_plane(binaries.find(), tmp_path, options) as second:
        assert second.url != cluster.url
        nodes = second.request("GET", "/api/v1/nodes")["items"]
        assert [node["status"]["allocatable"]["nvidia.com/gpu"] for node in nodes] == ["4"] * 3
        second.kill("kube-apiserver")
        with pytest.raises(OSError, match="refused"):
            second.request("GET", "/api/v1/nodes")
        second.start("kube-apiserver")
        second.wait_until_ready()
        assert len(second.request("GET", "/api/v1/nodes")["items"]) == 3
    assert not second.kubeconfig.exists()


def test_a_program_that_cannot_start_reports_its_reason(tmp_path: Path) -> None:
    options = Options(apiserver_flags=("--no-such-flag",))
    with (
        pytest.raises(ControlPlaneError, match="unknown flag: --no-such-flag"),
        control_plane(binaries.find(), tmp_path, options),
    ):
        pass
