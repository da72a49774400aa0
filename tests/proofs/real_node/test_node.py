"""Tests of the node itself: Pods run, are reachable, are limited, and survive restarts."""

import json
import tempfile
from pathlib import Path

import pytest

from tests.eventually import eventually_blocking
from tests.proofs.real_cluster.controlplane import ControlPlane
from tests.proofs.real_node import pods
from tests.proofs.real_node.images.preloaded import BUSYBOX
from tests.proofs.real_node.node import Node

pytestmark = pytest.mark.node

SERVER = ("python", "-m", "http.server", "8080")
HUNGRY = ("python", "-c", "held = bytearray(512 << 20); held[::4096] = b'x' * len(held[::4096])")


def test_temporary_files_are_in_the_enclosures_folder(place: Path) -> None:
    assert Path(tempfile.gettempdir()) == place


@pytest.fixture(scope="module")
def server(plane: ControlPlane, client: pods.Client) -> str:
    """Return the ClusterIP of a Service with one Pod behind it."""
    del client
    pods.apply(plane, pods.pod("server", *SERVER), pods.service("server", 8080))
    pods.wait_for_phase(plane, "server", "Running")
    found = plane.request("GET", "/api/v1/namespaces/default/services/server")
    address = str(found["spec"]["clusterIP"])
    eventually_blocking(lambda: pods.answers(f"http://{address}:8080"))
    return address


def test_a_pod_reaches_another_by_its_services_name_and_address(
    client: pods.Client, server: str
) -> None:
    for host in ("server", "server.default.svc.cluster.local", server):
        assert "Directory listing" in client.ask(f"http://{host}:8080")


def test_the_host_reaches_a_pod_by_its_services_name_and_address(server: str) -> None:
    for host in ("server.default.svc.cluster.local", server):
        assert "Directory listing" in pods.ask(f"http://{host}:8080")


def test_a_pod_reaches_the_api_server_at_the_address_in_its_environment(
    client: pods.Client, plane: ControlPlane
) -> None:
    del client
    script = (
        "import os, socket; address = os.environ['KUBERNETES_SERVICE_HOST'], 443;"
        "print(socket.create_connection(address, 5).getpeername()[1])"
    )
    pods.apply(plane, pods.pod("caller", "python", "-c", script))
    pods.wait_for_phase(plane, "caller", "Succeeded")


def test_a_pod_gets_its_gpus_and_one_with_too_many_waits(
    plane: ControlPlane, real_node: Node
) -> None:
    del real_node
    wanted = {"nvidia.com__gpu": "6"}
    pods.apply(plane, pods.pod("half", "sleep", "1d", image=BUSYBOX, **wanted))
    pods.wait_for_phase(plane, "half", "Running")
    pods.apply(plane, pods.pod("too-many", "sleep", "1d", image=BUSYBOX, **wanted))
    seen = eventually_blocking(
        lambda: pods.status(plane, "too-many"), lambda seen: bool(seen.get("conditions"))
    )
    assert "Insufficient nvidia.com/gpu" in seen["conditions"][0]["message"]
    plane.kubectl("delete", "pod", "half", "too-many")


def test_a_process_that_exceeds_its_memory_limit_is_killed(
    plane: ControlPlane, real_node: Node
) -> None:
    del real_node
    pods.apply(plane, pods.pod("hungry", *HUNGRY, memory="64Mi"))
    ended = pods.wait_for_phase(plane, "hungry", "Failed")
    state = ended["containerStatuses"][0]["state"]["terminated"]
    assert (state["reason"], state["exitCode"]) == ("OOMKilled", 137)


def test_a_missing_image_fails_at_once(plane: ControlPlane, real_node: Node) -> None:
    del real_node
    pods.apply(plane, pods.pod("unknown", "run", image="nowhere.example/none:1"))
    seen = eventually_blocking(
        lambda: pods.status(plane, "unknown"),
        lambda seen: "waiting" in json.dumps(seen) and "ImagePull" in json.dumps(seen),
        within_seconds=10,
    )
    assert "no such host" in json.dumps(seen)
    plane.kubectl("delete", "pod", "unknown")


@pytest.mark.parametrize("program", ["kubelet", "containerd", "kube-proxy", "coredns"])
def test_pods_survive_the_kill_of_a_program_of_the_node(
    program: str, plane: ControlPlane, real_node: Node, client: pods.Client, server: str
) -> None:
    before = pods.status(plane, "server")["containerStatuses"][0]["containerID"]
    real_node.kill(program)
    real_node.start(program)
    real_node.wait_until_ready()
    eventually_blocking(lambda: pods.answers("http://server.default.svc.cluster.local:8080"))
    eventually_blocking(lambda: client.answers(f"http://{server}:8080"))
    assert pods.status(plane, "server")["containerStatuses"][0]["containerID"] == before
