"""Both overlays on a real control plane: they are accepted as a whole, and removed completely."""

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
    """Yield a control plane of its own, as the manifests' names may be taken in a shared one."""
    yield from started(tmp_path_factory, pytestconfig)


def folder(overlay: str) -> str:
    return str(MANIFESTS / "overlays" / overlay)


@pytest.fixture(scope="module")
def minimal(plane: ControlPlane) -> ControlPlane:
    plane.kubectl("apply", "-k", folder("minimal"))
    return plane


@pytest.fixture(scope="module")
def full(minimal: ControlPlane) -> ControlPlane:
    """Apply `full` over `minimal`, as for an installation that adds functions later."""
    minimal.kubectl("apply", "-k", folder("full"))
    return minimal


def demand_available(plane: ControlPlane, overlay: str) -> None:
    """Wait until admission has let in the Pods of every Deployment."""
    names = [each["metadata"]["name"] for each in documents("Deployment", overlay)]
    wait = ("wait", "--for=condition=Available", "--timeout=60s")
    for name in names:
        plane.kubectl("-n", SYSTEM, "rollout", "status", f"deployment/{name}", "--timeout=60s")
    plane.kubectl("-n", SYSTEM, *wait, *(f"deployment/{name}" for name in names))


def test_applying_minimal_once_installs_it(minimal: ControlPlane) -> None:
    demand_available(minimal, "minimal")


def test_applying_full_once_extends_minimal(full: ControlPlane) -> None:
    demand_available(full, "full")


def test_the_programs_output_matches_the_installed_objects(full: ControlPlane) -> None:
    text = overlays.text_of(overlays.Overlay.FULL)
    assert full.kubectl("diff", "-f", "-", stdin=text) == ""
    full.kubectl("apply", "-f", "-", stdin=text)


def test_the_system_namespace_rejects_an_unrestricted_pod(full: ControlPlane) -> None:
    with pytest.raises(ControlPlaneError, match='violates PodSecurity "restricted:latest"'):
        full.kubectl("create", "-f", "-", stdin=json.dumps(CARELESS))


def test_the_server_finds_no_type_errors_in_the_policies(full: ControlPlane) -> None:
    """The server checks their expressions against the schemas of the kinds."""

    def checks() -> dict[str, object]:
        found = full.request("GET", POLICIES)["items"]
        return {
            each["metadata"]["name"]: each.get("status", {}).get("typeChecking") for each in found
        }

    seen = eventually_blocking(checks, lambda found: None not in found.values())
    assert seen == {"gpuruntime-claims": {}, "gpuruntime-status": {}}


def test_deleting_the_overlay_leaves_nothing_behind(full: ControlPlane) -> None:
    full.kubectl("delete", "-k", folder("full"), "--timeout=90s")
    names = full.kubectl("get", "namespaces,crds,clusterroles", "-o", "name")
    assert not [name for name in names.split() if "runtime" in name]
