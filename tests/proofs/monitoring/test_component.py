"""The component as kustomize builds it, under an operator's own overlay."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.proofs.monitoring.rules import FOLDER, alerts, dashboard, groups, runbooks
from tests.proofs.real_cluster import binaries

pytestmark = pytest.mark.cluster


def built(folder: Path, *resources: str, component: Path = FOLDER) -> dict[tuple[str, str], Any]:
    """Return the built objects by kind and name, from these folders and the component."""
    overlay = {
        "resources": [os.path.relpath(FOLDER.parent / each, folder) for each in resources],
        "components": [os.path.relpath(component, folder)],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    kubectl = binaries.find() / "kubectl"
    done = subprocess.run(
        [str(kubectl), "kustomize", str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return {
        (each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(done.stdout)
    }


@pytest.mark.parametrize(
    "resources",
    [(), ("control-plane",), ("control-plane", "serverless")],
    ids=["alone", "control plane", "control plane and serverless"],
)
def test_the_component_adds_its_objects_to_any_overlay(
    tmp_path: Path, resources: tuple[str, ...]
) -> None:
    documents = built(tmp_path.resolve(), *resources)
    assert documents["PrometheusRule", "gpuruntime"]["spec"] == groups()
    assert documents["PodMonitor", "gpuruntime"]["metadata"]["namespace"] == "runtime-system"
    shown = documents["ConfigMap", "gpuruntime-dashboard"]
    assert yaml.safe_load(shown["data"]["gpuruntime.json"]) == dashboard()
    assert shown["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert (("Deployment", "gpuruntime-api") in documents) is bool(resources)
    assert ("ConfigMap", "gpuruntime-runbooks") not in documents


def test_one_setting_moves_the_runbooks_of_all_alerts(tmp_path: Path) -> None:
    copy = tmp_path.resolve() / "monitoring"
    shutil.copytree(FOLDER, copy)
    setting = copy / "runbooks.yaml"
    setting.write_text(setting.read_text().replace(runbooks(), "https://wiki.test/gpu.md"))
    spec = built(tmp_path.resolve(), component=copy)["PrometheusRule", "gpuruntime"]["spec"]
    found = [rule["annotations"]["runbook"] for each in spec["groups"] for rule in each["rules"]]
    assert found == [f"https://wiki.test/gpu.md#{alert.name.lower()}" for alert in alerts()]
