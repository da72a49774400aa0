"""Both overlays on a real control plane: they are accepted as a whole, and removed completely."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from gpuruntime.embedded.objects.registry import Kind, Target
from gpuruntime.manifests import overlays
from gpuruntime.models.kinds.labels import UNMANAGED
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.roles.dev.installation import namespace_policy
from gpuruntime.settings.schema import NamespaceSettings
from tests.eventually import eventually_blocking
from tests.proofs.real_cluster.controlplane import ControlPlane, ControlPlaneError
from tests.proofs.real_cluster.fixtures import started
from tests.rooms.manifests.overlays import MANIFESTS, documents
from tests.rooms.manifests.test_kustomize import overlay_elsewhere
from tests.row_ids import in_words

pytestmark = pytest.mark.cluster

SYSTEM = "runtime-system"
SPECS = {
    "gpuunits": {"specName": "g1.1"},
    "stockpools": {"specName": "g1.1", "replicas": 1},
    "gpustorages": {"size": "1Gi"},
}
KINDS = {"gpuunits": "GPUUnit", "stockpools": "StockPool", "gpustorages": "GPUStorage"}
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
    names = ("claims", "gateway-exec", "namespaces", "secrets", "status")
    assert seen == {f"gpuruntime-{name}": {} for name in names}


def wait_until_refused(plane: ControlPlane, plural: str, namespace: str) -> str:
    """Return the message of the refusal: a policy is in force soon after its creation."""
    document = json.dumps(
        {
            "apiVersion": "runtime.lokiwager.io/v1alpha1",
            "kind": KINDS[plural],
            "metadata": {"name": "astray", "namespace": namespace},
            "spec": SPECS[plural],
        }
    )

    def message() -> str:
        try:
            plane.kubectl("create", "--dry-run=server", "-f", "-", stdin=document)
        except ControlPlaneError as error:
            return str(error)
        return ""

    return eventually_blocking(message, lambda text: "denied request" in text)


@pytest.mark.parametrize(
    ("plural", "namespace"),
    [
        ("gpuunits", "default"),
        ("stockpools", "default"),
        ("gpustorages", "default"),
        ("stockpools", "runtime-instance"),
        ("gpustorages", "runtime-stock"),
    ],
    ids=in_words,
)
def test_an_object_in_the_wrong_namespace_is_refused_as_by_dev(
    full: ControlPlane, plural: str, namespace: str
) -> None:
    kind = Kind(group=GPU_UNITS.group, kind=KINDS[plural], plural=plural)
    policy = namespace_policy(NamespaceSettings())
    said = wait_until_refused(full, plural, namespace)
    assert policy.refusal(Target(kind=kind, namespace=namespace), {}) in said
    assert "is forbidden: ValidatingAdmissionPolicy 'gpuruntime-namespaces' with binding" in said


def test_a_namespace_with_the_label_takes_any_of_our_objects(full: ControlPlane) -> None:
    full.kubectl("create", "namespace", "other")
    full.kubectl("label", "namespace", "other", f"{UNMANAGED}=true")
    unit = yaml.safe_load((MANIFESTS.parent / "examples" / "gpuunit.yaml").read_text())
    unit["metadata"]["namespace"] = "other"
    text = json.dumps(unit)
    eventually_blocking(lambda: is_created(full, text), bool)
    full.kubectl("delete", "namespace", "other")


def is_created(plane: ControlPlane, text: str) -> bool:
    try:
        plane.kubectl("create", "-f", "-", stdin=text)
    except ControlPlaneError:
        return False
    return True


def test_deleting_the_overlay_leaves_nothing_behind(full: ControlPlane) -> None:
    full.kubectl("delete", "-k", folder("full"), "--timeout=90s")
    names = full.kubectl("get", "namespaces,crds,clusterroles", "-o", "name")
    assert not [name for name in names.split() if "runtime" in name]


def test_an_overlay_with_other_namespaces_refuses_the_default_ones(
    plane: ControlPlane, tmp_path: Path
) -> None:
    """This is the last test, as it needs a cluster without an installation."""
    plane.kubectl("apply", "-k", str(overlay_elsewhere(tmp_path)))
    plane.kubectl("create", "namespace", "runtime-instance")
    said = wait_until_refused(plane, "gpuunits", "runtime-instance")
    assert "create it in cloud-instance or cloud-stock, or allow it" in said
    unit = (MANIFESTS.parent / "examples" / "gpuunit.yaml").read_text()
    text = unit.replace("runtime-instance", "cloud-instance")
    plane.kubectl("create", "--dry-run=server", "-f", "-", stdin=text)
