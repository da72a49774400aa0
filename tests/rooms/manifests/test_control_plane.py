"""The control plane as Pods: confined as admission demands, and as the code expects them."""

from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuruntime.models.kinds import labels
from gpuruntime.settings.load import load

FOLDER = Path(__file__).parents[3] / "manifests" / "control-plane"
ROLES = ("manager", "api")


def documents(kind: str, file: str) -> list[dict[str, Any]]:
    every = yaml.safe_load_all((FOLDER / file).read_text())
    return [document for document in every if document["kind"] == kind]


def pod_of(role: str) -> dict[str, Any]:
    [deployment] = documents("Deployment", f"{role}.yaml")
    pod: dict[str, Any] = deployment["spec"]["template"]
    return pod


def container_of(role: str) -> dict[str, Any]:
    [container] = pod_of(role)["spec"]["containers"]
    assert isinstance(container, dict)
    return container


def secrets_of(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the secrets of the only container by their mount paths; all are mounted read-only."""
    volumes = {volume["name"]: volume.get("secret") for volume in spec["volumes"]}
    mounts = [mount for mount in spec["containers"][0]["volumeMounts"] if volumes[mount["name"]]]
    assert all(mount["readOnly"] for mount in mounts)
    return {mount["mountPath"]: volumes[mount["name"]] for mount in mounts}


@pytest.mark.parametrize("role", ROLES)
def test_a_role_has_its_own_account_and_no_privileges(role: str) -> None:
    spec, container = pod_of(role)["spec"], container_of(role)
    assert spec["serviceAccountName"] == f"gpuruntime-{role}"
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
    container = container_of(role)
    assert container["args"] == [role, "--config", f"/etc/gpuruntime/{role}.yaml"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports["operations"] == loaded.operations.listen.port
    assert ports.get("http", loaded.listen.port) == loaded.listen.port


@pytest.mark.parametrize("role", ROLES)
def test_a_role_reads_its_optional_secret_as_its_own_user(role: str) -> None:
    spec = pod_of(role)["spec"]
    assert secrets_of(spec) == {
        "/etc/gpuruntime-secrets": {
            "secretName": f"gpuruntime-{role}",
            "optional": True,
            "defaultMode": 0o440,
        }
    }
    assert spec["securityContext"]["fsGroup"] == spec["securityContext"]["runAsGroup"]


@pytest.mark.parametrize("role", ROLES)
def test_a_role_has_more_time_to_end_than_it_needs(role: str) -> None:
    """Kubernetes gives 30 s by default, which include the sleep before the signal."""
    hooks = container_of(role).get("lifecycle", {})
    asleep = hooks.get("preStop", {}).get("sleep", {}).get("seconds", 0)
    loaded = load(str(FOLDER / f"{role}-configuration.yaml"), flags={}, environment={})
    assert asleep + loaded.shutdownGrace < pod_of(role)["spec"].get(
        "terminationGracePeriodSeconds", 30
    )


def test_the_apis_pods_have_the_label_that_policies_select() -> None:
    wanted = {labels.APP_NAME: labels.API_APP}
    assert wanted.items() <= pod_of("api")["metadata"]["labels"].items()
    for service in documents("Service", "api.yaml"):
        assert service["spec"]["selector"] == wanted


def test_the_image_has_the_tag_of_this_version() -> None:
    kustomization = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    assert kustomization["images"] == [{"name": "gpuruntime", "newTag": version("gpuruntime")}]
    assert {container_of(role)["image"] for role in ROLES} == {"gpuruntime"}
