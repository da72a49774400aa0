"""The roles that functions need, as Pods: held in, and without a right that they do not use."""

from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuruntime import settings
from gpuruntime.roles.results import ResultsRole

FOLDER = Path(__file__).parents[2] / "manifests" / "serverless"


def documents(file: str) -> dict[str, dict[str, Any]]:
    """By their kinds."""
    every = yaml.safe_load_all((FOLDER / file).read_text())
    return {document["kind"]: document for document in every}


@pytest.fixture
def results() -> dict[str, dict[str, Any]]:
    return documents("results.yaml")


def test_results_have_an_account_that_can_do_nothing(results: dict[str, dict[str, Any]]) -> None:
    assert results.keys() == {"ServiceAccount", "Deployment", "NetworkPolicy"}
    spec = results["Deployment"]["spec"]["template"]["spec"]
    assert spec["serviceAccountName"] == results["ServiceAccount"]["metadata"]["name"]
    assert spec["automountServiceAccountToken"] is False
    assert results["ServiceAccount"]["automountServiceAccountToken"] is False


def test_results_are_held_in_as_the_restricted_profile_asks(
    results: dict[str, dict[str, Any]],
) -> None:
    spec = results["Deployment"]["spec"]["template"]["spec"]
    [container] = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_results_take_the_configuration_that_is_mounted(
    results: dict[str, dict[str, Any]],
) -> None:
    path = FOLDER / "results-configuration.yaml"
    loaded = settings.load(str(path), flags={}, environment={})
    ResultsRole(loaded)
    spec = results["Deployment"]["spec"]["template"]["spec"]
    [container] = spec["containers"]
    assert container["args"] == ["results", "--config", "/etc/gpuruntime/results.yaml"]
    assert container["ports"] == [
        {"name": "operations", "containerPort": loaded.operations.listen.port}
    ]
    assert loaded.shutdownGrace < spec.get("terminationGracePeriodSeconds", 30)


def test_results_run_before_anybody_has_made_their_secret(
    results: dict[str, dict[str, Any]],
) -> None:
    volumes = results["Deployment"]["spec"]["template"]["spec"]["volumes"]
    [secret] = [volume["secret"] for volume in volumes if "secret" in volume]
    assert (secret["optional"], secret["defaultMode"]) == (True, 0o440)


def test_the_policy_of_results_is_for_their_pods(results: dict[str, dict[str, Any]]) -> None:
    selector = results["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"]
    labels = results["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert selector.items() <= labels.items()
    assert results["Deployment"]["spec"]["selector"]["matchLabels"] == selector


def test_the_image_is_that_of_this_version() -> None:
    kustomization = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    assert kustomization["images"] == [{"name": "gpuruntime", "newTag": version("gpuruntime")}]
