"""The example objects, applied as kubectl applies them to a `gpuruntime dev`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.eventually import eventually_blocking
from tests.proofs.real_cluster.product import Answer, Caller, request
from tests.rooms.roles.programs import Programs, printed, programs

EXAMPLES = Path(__file__).parents[3] / "examples"
PLURALS = {"GPUUnit": "gpuunits", "StockPool": "stockpools", "GPUStorage": "gpustorages"}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    with programs(tmp_path_factory.mktemp("objects")) as started:
        yield started


@pytest.fixture(scope="module")
def dev(program: Programs) -> tuple[str, Caller]:
    """Return the embedded cluster's address and a caller of the API before it."""
    process = program.dev()
    kubeconfig = yaml.safe_load(Path(printed(process, "kubeconfig")).read_text())
    return kubeconfig["clusters"][0]["cluster"]["server"], Caller(process.address)


def read(name: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((EXAMPLES / name).read_text())
    return document


def path_of(document: dict[str, Any]) -> str:
    namespace, plural = document["metadata"]["namespace"], PLURALS[document["kind"]]
    return f"/apis/{document['apiVersion']}/namespaces/{namespace}/{plural}"


def apply(server: str, document: dict[str, Any]) -> str:
    """Apply the object with strict field validation, as kubectl does, and return its path."""
    path = server + path_of(document)
    made = request("POST", f"{path}?fieldValidation=Strict", document)
    assert made.status == 201, made.document
    return f"{path}/{document['metadata']['name']}"


def test_the_unit_becomes_ready(dev: tuple[str, Caller]) -> None:
    server, caller = dev
    apply(server, read("gpuunit.yaml"))
    unit = caller.until("/gpu-units/by-hand", lambda unit: unit["phase"] == "Ready")
    assert unit["accessURL"].endswith(":8080")
    assert unit["sourceStock"] is None


def test_the_pool_fills(dev: tuple[str, Caller]) -> None:
    server, caller = dev
    apply(server, read("stockpool.yaml"))
    pool = caller.until("/operator/stockpools/g1-warm", lambda pool: pool["available"] == 3)
    assert pool["phase"] == "Ready"


def test_the_storage_becomes_ready(dev: tuple[str, Caller]) -> None:
    server, caller = dev
    apply(server, read("gpustorage.yaml"))
    storage = caller.until("/gpu-storages/by-hand", lambda storage: storage["phase"] == "Ready")
    assert (storage["capacity"], storage["prepareStatus"]["phase"]) == ("1Gi", "Succeeded")
    assert storage["accessorStatus"]["serviceName"] == "storage-accessor-by-hand"


def test_the_bad_unit_fails_until_it_is_corrected(dev: tuple[str, Caller]) -> None:
    server, caller = dev
    document = read("gpuunit-bad.yaml")
    where = apply(server, document)
    unit = caller.until("/gpu-units/bad", lambda unit: unit["phase"] == "Failed")
    assert unit["reason"] == "InvalidSpec"
    assert "memory" in unit["message"]

    def mend() -> Answer:
        """Correct the unit; its status may change meanwhile, as it may while a person edits."""
        found = request("GET", where).document
        found["spec"]["memory"] = "16Gi"
        return request("PUT", where, found)

    eventually_blocking(mend, lambda answer: answer.status == 200)
    caller.until("/gpu-units/bad", lambda unit: unit["phase"] == "Ready")
