"""Both overlays on a real control plane: accepted whole, and removed as they came."""

import json
from collections.abc import Iterator

import pytest

from gpuruntime.manifests import overlays
from tests.eventually import eventually_blocking
from tests.proofs.real_cluster.controlplane import ControlPlane, ControlPlaneError
from tests.proofs.real_cluster.fixtures import started
from tests.rooms.manifests.overlays import MANIFESTS, documents

pytestmark = pytest.mark.cluster

SYSTEM = "runtime-system"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
CARELESS = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "careless", "namespace": SYSTEM},
    "spec": {"containers": [{"name": "main", "image": "busybox:1.36"}]},
}


@pytest.fixture(scope="module")
def plane(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[ControlPlane]:
    """Of its own: nobody else's installation has the names of the manifests there."""
    yield from started(tmp_path_factory, pytestconfig)


def folder(overlay: str) -> str:
    return str(MANIFESTS / "overlays" / overlay)


@pytest.fixture(scope="module")
def minimal(plane: ControlPlane) -> ControlPlane:
    plane.kubectl("apply", "-k", folder("minimal"))
    return plane


@pytest.fixture(scope="module")
def full(minimal: ControlPlane) -> ControlPlane:
    """As whoever begins small and comes to functions later."""
    minimal.kubectl("apply", "-k", folder("full"))
    return minimal


def demand_available(plane: ControlPlane, overlay: str) -> None:
    """Admission lets in the Pods that the Deployments ask for."""
    names = [each["metadata"]["name"] for each in documents("Deployment", overlay)]
    wait = ("wait", "--for=condition=Available", "--timeout=60s")
    for name in names:
        plane.kubectl("-n", SYSTEM, "rollout", "status", f"deployment/{name}", "--timeout=60s")
    plane.kubectl("-n", SYSTEM, *wait, *(f"deployment/{name}" for name in names))


def test_one_apply_of_minimal_is_an_installation(minimal: ControlPlane) -> None:
    demand_available(minimal, "minimal")


def test_one_apply_of_full_makes_more_of_it(full: ControlPlane) -> None:
    demand_available(full, "full")


def test_what_the_program_prints_changes_nothing_more(full: ControlPlane) -> None:
    text = overlays.render(overlays.Overlay.FULL)
    assert full.kubectl("diff", "-f", "-", stdin=text) == ""
    full.kubectl("apply", "-f", "-", stdin=text)


def test_the_system_namespace_takes_no_pod_that_is_not_held_in(full: ControlPlane) -> None:
    with pytest.raises(ControlPlaneError, match='violates PodSecurity "restricted:latest"'):
        full.kubectl("create", "-f", "-", stdin=json.dumps(CARELESS))


def test_the_server_has_nothing_to_say_against_the_policies(full: ControlPlane) -> None:
    """It holds their expressions to the schemas of the kinds, and notes what does not fit."""

    def checks() -> dict[str, object]:
        found = full.request("GET", POLICIES)["items"]
        return {
            each["metadata"]["name"]: each.get("status", {}).get("typeChecking") for each in found
        }

    seen = eventually_blocking(checks, lambda found: None not in found.values())
    assert seen == {"gpuruntime-claims": {}, "gpuruntime-status": {}}


def test_it_is_removed_as_it_came(full: ControlPlane) -> None:
    full.kubectl("delete", "-k", folder("full"), "--timeout=90s")
    names = full.kubectl("get", "namespaces,crds,clusterroles", "-o", "name")
    assert not [name for name in names.split() if "runtime" in name]
