"""The OpenAPI document holds for any request to the running api, good or bad.

Callers are authenticated, so that each route's claim about that is checked as well.
"""

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from gpuruntime.models.kinds.units import GPU_UNITS
from tests.conftest import SEED
from tests.eventually import eventually_blocking
from tests.proofs.real_cluster.product import Process, request
from tests.rooms.bus.broker import broker
from tests.rooms.operations.cluster import READY
from tests.rooms.roles.programs import Programs

STOCK = "runtime-stock"
INSTANCE = "runtime-instance"
# A request that is too large is rejected before it is read, valid or not.
CONFIG = """
[checks.negative_data_rejection]
expected-statuses = ["400", "404", "405", "409", "413", "415"]
"""
# Cursors, namespaces and unique names follow rules that a schema cannot express.
LEFT_OUT = "positive_data_acceptance"
EXAMPLES = 10
TOKEN = "of-the-document"
# Without a manager no file server is ever ready, so 503 is the only answer.
FILES = "/files/"


def health_of(api: Process) -> Any:
    return request("GET", f"{api.address}/api/v1/health").document["data"]


def add_stock(server: str, count: int) -> None:
    spec = {"specName": "g1.1", "memory": "16Gi", "gpu": 1}
    for ordinal in range(1, count + 1):
        name = f"p-{ordinal}"
        body = {
            "apiVersion": GPU_UNITS.api_version,
            "kind": GPU_UNITS.kind,
            "metadata": {"name": name},
            "spec": spec,
        }
        made = request("POST", server + GPU_UNITS.path(namespace=STOCK), body)
        assert made.status == 201, made.document
        ready = {**made.document, "status": {"conditions": [READY]}}
        path = GPU_UNITS.path(namespace=STOCK, name=name, subresource="status")
        assert request("PUT", server + path, ready).status == 200


def add_function(server: str) -> None:
    body = {
        "apiVersion": GPU_UNITS.api_version,
        "kind": GPU_UNITS.kind,
        "metadata": {"name": "echo"},
        "spec": {"specName": "g1.1", "image": "echo:1", "serverless": {"requestID": "echo"}},
    }
    made = request("POST", server + GPU_UNITS.path(namespace=INSTANCE), body)
    assert made.status == 201, made.document


def asking(program: Programs) -> dict[str, Any]:
    """Write tokens for one caller with all rights and no practical limit."""
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    path = program.folder / "tokens.yaml"
    entry = {"name": "document", "role": "operator", "sha256": digest}
    path.write_text(yaml.safe_dump({"tokens": [entry]}))
    limits = {"requestsPerSecond": 100_000, "burst": 1_000_000}
    return {"mode": "token", "tokenFile": str(path), "limits": limits}


@pytest.fixture
def queue() -> Iterator[str]:
    """The api's broker. Invocations stay queued, because the function has no worker."""
    with broker() as started:
        yield started.url


def test_every_answer_is_one_that_the_document_promises(program: Programs, queue: str) -> None:
    kubeconfig = program.cluster()
    server = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    add_stock(server, 3)
    add_function(server)
    api = program.start(
        *("api", "--kubeconfig", str(kubeconfig)), nats={"url": queue}, auth=asking(program)
    )
    api.wait_until_ready()
    eventually_blocking(lambda: health_of(api), lambda health: health["queueConnected"])
    config = program.folder / "schemathesis.toml"
    config.write_text(CONFIG)
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "run"),
            *("--checks", "all", "--exclude-checks", LEFT_OUT),
            *("--seed", str(SEED), "--generation-database", "none", "-n", str(EXAMPLES)),
            *("--exclude-path-regex", FILES),
            *("--header", f"Authorization: Bearer {TOKEN}"),
            *("--continue-on-failure", "--no-color", "--suppress-health-check", "all"),
            f"{api.address}/openapi.json",
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=program.folder,  # it writes its crash files there
    )
    assert ended.returncode == 0, ended.stdout
