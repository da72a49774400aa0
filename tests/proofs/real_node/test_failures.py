"""The kubelet's reason for a Pod that does not run: in the unit's condition, and gone later."""

import json
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from gpuruntime.reconcilers.unit import status as unit_status
from tests.eventually import equals, eventually_blocking
from tests.proofs.real_node.deployment import INSTANCE, RESTS, Deployment
from tests.proofs.real_node.images.oci_archive import Image
from tests.proofs.real_node.images.preloaded import BUSYBOX, PYTHON, Images
from tests.proofs.real_node.node import Node

pytestmark = pytest.mark.node

SPEC = "failing.1"
STRANGER = "docker.io/library/stranger:1"
PATIENCE_SECONDS = 5.0
# The condition has whole seconds, and two cores are busy.
SLACK_SECONDS = 3.0
RAISES = {"command": ["python", "-c", "raise ValueError('no model found')"]}
EATS = {"command": ["python", "-c", "held = [bytearray(b'x' * (1 << 20)) for _ in range(512)]"]}


@pytest.fixture(scope="module")
def failing(product: Deployment, real_node: Node, images: Images, place: Path) -> Deployment:
    """Prepare stock for each case, and an image that runs as an unknown user."""
    archive = place / "stranger.tar"
    images.pack(
        archive, Image(name=STRANGER, command=("sh",), user="stranger"), "files", "busybox"
    )
    real_node.take_image(archive)
    product.seed(SPEC, 6, memory="64Mi")
    return product


def condition(product: Deployment, name: str) -> dict[str, Any]:
    """Return the condition Ready, or an empty one before the manager has seen the unit."""
    view = product.caller.get(f"/gpu-units/{name}").data
    found = (one for one in view["conditions"] if one["type"] == "Ready")
    return next(found, {"message": "", "reason": "", "status": "Unknown"})


def refused_at(product: Deployment, name: str) -> float:
    """Return when the scheduler first found no node for the Pod, in whole seconds."""
    [pod] = product.pods_of(INSTANCE, f"runtime.lokiwager.io/unit={name}")
    [scheduled] = [one for one in pod["status"]["conditions"] if one["type"] == "PodScheduled"]
    return datetime.fromisoformat(scheduled["lastTransitionTime"]).timestamp()


def apply_unit(product: Deployment, name: str, **spec: Any) -> None:
    """Apply a unit past the API, which would refuse an invalid one."""
    document = {
        "apiVersion": "runtime.lokiwager.io/v1alpha1",
        "kind": "GPUUnit",
        "metadata": {"name": name, "namespace": INSTANCE},
        "spec": {"specName": f"{name}.1", "image": BUSYBOX, "template": RESTS, **spec},
    }
    product.plane.kubectl("apply", "-f", "-", stdin=json.dumps(document))


@pytest.fixture
def cleared(failing: Deployment, request: pytest.FixtureRequest) -> Iterator[str]:
    name = f"failing-{request.node.callspec.id}"
    yield name
    assert failing.caller.delete(f"/gpu-units/{name}").status == 204


@pytest.mark.parametrize(
    ("image", "template", "heard", "said"),
    [
        pytest.param("nowhere.example/none:1", RESTS, "ErrImagePull", "no such host", id="image"),
        pytest.param(PYTHON, RAISES, "no model found", "ValueError: no model found", id="crash"),
        pytest.param(PYTHON, RAISES, "CrashLoopBackOff", "no model found", id="loop"),
        pytest.param(
            BUSYBOX, {"command": ["serve"]}, "not found in $PATH", 'exec: "serve"', id="command"
        ),
        pytest.param(STRANGER, RESTS, "no users found", "CreateContainerError", id="user"),
        pytest.param(PYTHON, EATS, "OOMKilled", "OOMKilled: exit code 137", id="memory"),
    ],
)
def test_a_failure_is_reported_in_the_kubelets_words_and_cleared_by_a_put(
    failing: Deployment,
    cleared: str,
    image: str,
    template: dict[str, Any],
    heard: str,
    said: str,
) -> None:
    failing.claim(SPEC, cleared, image=image, template=template)
    selector = f"runtime.lokiwager.io/unit={cleared}"
    eventually_blocking(
        lambda: json.dumps([pod["status"] for pod in failing.pods_of(INSTANCE, selector)]),
        lambda told: heard in told,
    )
    seen = eventually_blocking(
        lambda: condition(failing, cleared),
        lambda one: heard in one["message"] and said in one["message"],
        within_seconds=PATIENCE_SECONDS,
        explain=lambda: json.dumps(condition(failing, cleared)),
    )
    assert (seen["status"], seen["reason"]) == ("False", "PodStartupFailed")
    assert failing.caller.get(f"/gpu-units/{cleared}").data["phase"] == "Failed"
    mended = failing.caller.put(f"/gpu-units/{cleared}", {"image": BUSYBOX, "template": RESTS})
    assert mended.status == 200
    failing.ready(cleared)


def test_too_few_gpus_are_reported_in_the_schedulers_words_until_there_are_enough(
    product: Deployment, real_node: Node
) -> None:
    """The report comes only after a delay in which a place may still become free."""
    apply_unit(product, "greedy", gpu=100)
    product.caller.until(
        "/gpu-units/greedy",
        lambda unit: (
            unit["reason"] == "PodUnschedulable"
            and "Insufficient nvidia.com/gpu" in unit["message"]
        ),
    )
    took = time.time() - refused_at(product, "greedy")
    assert unit_status.PATIENCE_SECONDS <= took < unit_status.PATIENCE_SECONDS + SLACK_SECONDS
    real_node.pretend_gpus(108)
    product.ready("greedy")
    assert product.caller.delete("/gpu-units/greedy").status == 204
    real_node.pretend_gpus()


@pytest.fixture
def missing(product: Deployment) -> Iterator[Deployment]:
    """Yield a deployment with a unit that reports a missing storage."""
    apply_unit(product, "mounting", storageMounts=[{"name": "late", "mountPath": "/models"}])
    seen = eventually_blocking(
        lambda: condition(product, "mounting"),
        lambda one: "storage late does not exist" in one["message"],
        within_seconds=PATIENCE_SECONDS,
    )
    assert (seen["status"], seen["reason"]) == ("False", "StorageNotReady")
    assert product.pods_of(INSTANCE, "runtime.lokiwager.io/unit=mounting") == []
    yield product
    assert product.caller.delete("/gpu-units/mounting").status == 204
    eventually_blocking(lambda: product.caller.get("/gpu-units/mounting").status, equals(404))


def test_a_missing_storage_is_reported_until_it_is_no_longer_mounted(
    missing: Deployment,
) -> None:
    mended = missing.caller.put("/gpu-units/mounting", {"storageMounts": []})
    assert mended.status == 200
    missing.ready("mounting")


def test_a_missing_storage_is_reported_until_it_is_created(missing: Deployment) -> None:
    storage = {"operationID": "storage-late", "name": "late", "size": "1Mi"}
    assert missing.caller.post("/gpu-storages", storage).status == 201
    missing.ready("mounting")
