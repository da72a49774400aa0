"""The walk-through, step by step, through the api's Service, with Pods that really run."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.proofs.real_node import pods
from tests.proofs.real_node.deployment import ADDRESS, Deployment
from tests.proofs.real_node.overlay import SYSTEM
from tests.walkthrough import UNIT

pytestmark = pytest.mark.node

EXAMPLE = Path(__file__).parents[3] / "examples" / "walkthrough.py"
PYTHON = "/opt/gpuruntime/bin/python"


@pytest.mark.parametrize("role", ["manager", "api"])
def test_a_role_runs_without_root_and_can_write_no_folder(product: Deployment, role: str) -> None:
    first, second = product.pods(role)
    for pod in (first, second):
        name = pod["metadata"]["name"]
        assert product.exec(name, PYTHON, "-c", "import os; print(os.getuid())") == "65532\n"
        probe = "import os; print([path for path in ('/', '/tmp', '/opt') if os.access(path, 2)])"
        assert product.exec(name, PYTHON, "-c", probe) == "[]\n"
        assert pod["status"]["containerStatuses"][0]["restartCount"] == 0


def test_one_manager_leads_and_both_are_ready(product: Deployment) -> None:
    names = [pod["metadata"]["name"] for pod in product.pods("manager")]
    assert sum(product.leader().startswith(name) for name in names) == 1


def test_the_walk_through_reaches_its_end_through_the_service(product: Deployment) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), ADDRESS], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    unit = product.ready(UNIT["name"])
    assert (unit["image"], unit["memory"], unit["gpu"]) == ("python:3.12", "16Gi", 1)


def test_the_unit_answers_a_pod_and_the_host_by_name_and_by_address(
    product: Deployment, client: pods.Client
) -> None:
    url = product.ready(UNIT["name"])["accessURL"]
    path = f"/api/v1/namespaces/runtime-instance/services/unit-{UNIT['name']}"
    address = product.plane.request("GET", path)["spec"]["clusterIP"]
    for each in (url, f"http://{address}:8080"):
        assert "Directory listing" in client.ask(each)
        assert "Directory listing" in pods.ask(each)


def test_the_api_serves_the_log_of_the_units_pod(product: Deployment) -> None:
    answer = product.caller.get(f"/gpu-units/{UNIT['name']}/logs")
    assert answer.status == 200
    assert b'"GET / HTTP/1.1" 200' in answer.document


def test_the_audit_finds_nothing(product: Deployment) -> None:
    report = product.caller.get("/operator/audit")
    assert report.status == 200
    assert report.data["breaches"] == []
    assert product.pods_of(SYSTEM, "app.kubernetes.io/part-of=gpuruntime")
