"""The roles that functions need, as Pods: confined, and without rights that they do not use."""

import re
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuruntime.roles.activator import activator_role
from gpuruntime.roles.results import results_role
from gpuruntime.settings.load import load
from gpuruntime.settings.schema import Settings
from tests.rooms.manifests.overlays import documents as every
from tests.rooms.manifests.test_control_plane import secrets_of

ROLES: dict[str, Callable[[Settings], object]] = {
    "activator": activator_role,
    "results": results_role,
}
FILE = re.compile(r"(\w+)\.yaml")
FOLDER = Path(__file__).parents[3] / "manifests" / "serverless"


def documents(file: str) -> dict[str, dict[str, Any]]:
    """Return the documents of a file by their kinds."""
    every = yaml.safe_load_all((FOLDER / file).read_text())
    return {document["kind"]: document for document in every}


def pod_of(role: str) -> dict[str, Any]:
    spec: dict[str, Any] = documents(f"{role}.yaml")["Deployment"]["spec"]["template"]["spec"]
    return spec


def container_of(role: str) -> dict[str, Any]:
    [container] = pod_of(role)["containers"]
    assert isinstance(container, dict)
    return container


@pytest.fixture
def results() -> dict[str, dict[str, Any]]:
    return documents("results.yaml")


def test_the_results_role_has_an_account_without_rights(
    results: dict[str, dict[str, Any]],
) -> None:
    assert results.keys() == {"ServiceAccount", "Deployment", "Service", "PodDisruptionBudget"}
    spec = results["Deployment"]["spec"]["template"]["spec"]
    assert spec["serviceAccountName"] == results["ServiceAccount"]["metadata"]["name"]
    assert spec["automountServiceAccountToken"] is False
    assert results["ServiceAccount"]["automountServiceAccountToken"] is False


def test_the_activator_has_an_account_with_rights() -> None:
    spec = pod_of("activator")
    assert "automountServiceAccountToken" not in spec
    bound = {each["subjects"][0]["name"] for each in every("RoleBinding")}
    assert spec["serviceAccountName"] in bound


@pytest.mark.parametrize("role", ROLES)
def test_a_role_is_confined_as_the_restricted_profile_demands(role: str) -> None:
    spec, container = pod_of(role), container_of(role)
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


@pytest.mark.parametrize("role", ROLES)
def test_a_role_loads_the_mounted_configuration(role: str) -> None:
    path = FOLDER / f"{role}-configuration.yaml"
    loaded = load(str(path), flags={}, environment={})
    ROLES[role](loaded)
    container = container_of(role)
    assert container["args"] == [role, "--config", f"/etc/gpuruntime/{role}.yaml"]
    assert container["ports"] == [
        {"name": "operations", "containerPort": loaded.operations.listen.port}
    ]
    assert loaded.shutdownGrace < pod_of(role).get("terminationGracePeriodSeconds", 30)


@pytest.mark.parametrize("role", ROLES)
def test_a_role_reads_its_optional_secret_as_its_own_user(role: str) -> None:
    spec = pod_of(role)
    assert secrets_of(spec) == {
        "/etc/gpuruntime-secrets": {
            "secretName": f"gpuruntime-{role}",
            "optional": True,
            "defaultMode": 0o440,
        }
    }
    assert spec["securityContext"]["fsGroup"] == spec["securityContext"]["runAsGroup"]


def test_each_role_accepts_its_configuration_of_the_page_on_functions(tmp_path: Path) -> None:
    page = (FOLDER.parents[1] / "docs/functions.md").read_text()
    blocks = [block.partition("\n```")[0] for block in page.split("```yaml\n# ")[1:]]
    said = {name: block for block in blocks for name in FILE.findall(block.splitlines()[0])}
    assert said.keys() == {"kustomization", "manager", "api", "activator", "results"}
    del said["kustomization"]
    for name, block in said.items():
        (tmp_path / name).write_text(f"# {block}")
        assert load(str(tmp_path / name), flags={}, environment={}).nats.url


def test_the_image_has_the_tag_of_this_version() -> None:
    kustomization = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    assert kustomization["images"] == [{"name": "gpuruntime", "newTag": version("gpuruntime")}]
