"""Storages on real volumes: filled, read, copied, served and kept."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from tests.eventually import eventually_blocking
from tests.proofs.real_node import pods
from tests.proofs.real_node.configuration import NAME
from tests.proofs.real_node.deployment import ADDRESS, Deployment
from tests.proofs.real_node.images.preloaded import BUSYBOX, PYTHON

pytestmark = pytest.mark.node

CLASS = "local"
VOLUMES = 6
PORT = 8080
FILL = {"fromImage": BUSYBOX, "command": ["sh", "-c", "echo first words > /storage/words"]}
SERVES = "trap exit TERM; python -m http.server 8080 --directory /models & wait"
TEMPLATE = {"command": ["sh", "-c", SERVES], "ports": [{"name": "http", "port": PORT}]}
MOUNTS = [{"name": "weights", "mountPath": "/models"}]


@attrs.frozen
class File:
    status: int
    body: bytes


@pytest.fixture(scope="module")
def stored(product: Deployment, place: Path) -> Iterator[Deployment]:
    """Yield a deployment with local volumes that are bound to their first Pod."""
    product.clear()
    documents = [storage_class(), *(volume(place, number) for number in range(VOLUMES))]
    pods.apply(product.plane, *documents)
    product.seed("stored.1", 4, memory="64Mi")
    yield product
    product.clear()


def storage_class() -> dict[str, Any]:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": CLASS},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def volume(place: Path, number: int) -> dict[str, Any]:
    folder = place / f"volumes/{number}"
    folder.mkdir(parents=True)
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [NAME]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"disk-{number}"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": CLASS,
            "local": {"path": str(folder)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        },
    }


def make(product: Deployment, name: str, **body: Any) -> dict[str, Any]:
    """Create a storage and return its view once it is ready."""
    wanted = {"operationID": f"storage-{name}", "name": name, "size": "1Gi"}
    answer = product.caller.post("/gpu-storages", {**wanted, "storageClassName": CLASS, **body})
    assert answer.status == 201, answer
    return is_ready(product, name)


def is_ready(product: Deployment, name: str) -> dict[str, Any]:
    view: dict[str, Any] = product.caller.until(
        f"/gpu-storages/{name}", lambda storage: storage["phase"] == "Ready"
    )
    return view


def reader(product: Deployment, name: str) -> str:
    """Return the address of a unit that serves the files of its mount."""
    product.claim("stored.1", name, image=PYTHON, template=TEMPLATE, storageMounts=MOUNTS)
    return str(product.ready(name)["accessURL"])


def file(path: str, data: bytes | None = None) -> bytes:
    """Read or write a file through the API.

    Retry 5xx answers, because kube-proxy learns of a ready file server with a delay.
    """
    answer = eventually_blocking(lambda: ask_for(path, data), lambda answer: answer.status < 500)
    assert answer.status < 300, answer
    return answer.body


def ask_for(path: str, data: bytes | None) -> File:
    url = f"{ADDRESS}/api/v1/gpu-storages/{path}"
    request = urllib.request.Request(url, data, method="PUT" if data else "GET")
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return File(answer.status, answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return File(error.code, error.read())


def test_a_unit_reads_the_files_that_a_prepare_wrote(stored: Deployment) -> None:
    make(stored, "weights", prepare=FILL)
    assert pods.ask(f"{reader(stored, 'reading')}/words") == "first words\n"


def test_a_later_unit_finds_the_files_of_the_first_one(stored: Deployment) -> None:
    assert stored.caller.delete("/gpu-units/reading").status == 204
    assert pods.ask(f"{reader(stored, 'again')}/words") == "first words\n"


def test_suspend_and_resume_keep_the_data(stored: Deployment) -> None:
    assert stored.caller.put("/gpu-units/again", {"suspended": True}).status == 200
    stored.caller.until("/gpu-units/again", lambda unit: unit["phase"] == "Suspended")
    assert stored.caller.put("/gpu-units/again", {"suspended": False}).status == 200
    assert pods.ask(f"{stored.ready('again')['accessURL']}/words") == "first words\n"


def test_the_file_server_reads_and_writes_files_through_the_api(stored: Deployment) -> None:
    accessor = {"enabled": True, "writable": True}
    assert stored.caller.put("/gpu-storages/weights", {"accessor": accessor}).status == 200
    stored.caller.until(
        "/gpu-storages/weights", lambda storage: storage["accessorStatus"]["phase"] == "Ready"
    )
    assert file("weights/files/words") == b"first words\n"
    file("weights/files/more", b"from a caller")
    url = stored.ready("again")["accessURL"]
    assert pods.ask(f"{url}/more") == "from a caller"


def test_a_copy_has_the_files_of_its_source(stored: Deployment) -> None:
    assert stored.caller.delete("/gpu-units/again").status == 204
    accessor = {"enabled": True, "writable": True}
    make(stored, "copy", prepare={"fromStorageName": "weights"}, accessor=accessor)
    stored.caller.until(
        "/gpu-storages/copy", lambda storage: storage["accessorStatus"]["phase"] == "Ready"
    )
    assert file("copy/files/more") == b"from a caller"
    # The file still belongs to the file server, which can write only to its own files.
    file("copy/files/more", b"from the same")
    assert file("copy/files/more") == b"from the same"


def test_a_failed_prepare_is_reported_and_runs_again_on_request(stored: Deployment) -> None:
    failing = {**FILL, "command": ["sh", "-c", "echo no such model >&2; exit 3"]}
    body = {"operationID": "storage-broken", "name": "broken", "size": "1Gi"}
    answer = stored.caller.post(
        "/gpu-storages", {**body, "storageClassName": CLASS, "prepare": failing}
    )
    assert answer.status == 201
    view = stored.caller.until(
        "/gpu-storages/broken", lambda storage: storage["phase"] == "Failed"
    )
    assert "no such model" in json.dumps(view["conditions"])
    assert stored.caller.post("/gpu-storages/broken/recover", {}).status == 200
