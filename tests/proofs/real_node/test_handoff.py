"""Claims on a full node, whose every GPU is held by stock: a claim runs in the stock's place."""

import json
import time
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.eventually import eventually_blocking
from tests.proofs.real_node.deployment import INSTANCE, RESTS, STOCK, Deployment
from tests.proofs.real_node.images.oci_archive import Image
from tests.proofs.real_node.images.preloaded import BUSYBOX, Images
from tests.proofs.real_node.node import GPUS, Node

pytestmark = pytest.mark.node

WARM = "docker.io/library/warm:1"
PHASES = ("acceptedAt", "claimedAt", "createdAt", "scheduledAt", "startedAt", "readyAt")
# Timestamps of Kubernetes have whole seconds.
GRAIN_SECONDS = 1.0
# Two busy cores delay the report of a change.
SLACK_SECONDS = 3.0


@pytest.fixture
def empty(product: Deployment) -> Iterator[Deployment]:
    product.clear()
    yield product
    product.clear()


def moments(unit: dict[str, Any]) -> list[float]:
    return [datetime.fromisoformat(unit["timeline"][phase]).timestamp() for phase in PHASES]


def gpus_in_use(product: Deployment) -> int:
    every = product.pods_of(STOCK) + product.pods_of(INSTANCE)
    limits = [pod["spec"]["containers"][0]["resources"]["limits"] for pod in every]
    return sum(int(one.get("nvidia.com/gpu", 0)) for one in limits)


def claim_with_retries(product: Deployment, name: str) -> None:
    body = {"operationID": f"unit-{name}", "name": name, "specName": "crowd.1"}
    wanted = {**body, "image": BUSYBOX, "template": RESTS}
    eventually_blocking(
        lambda: product.caller.post("/gpu-units", wanted).status,
        lambda status: status in (200, 201),
    )


@pytest.mark.parametrize("gpus", [1, GPUS])
def test_a_claim_on_a_full_node_runs_in_the_place_of_its_stock(
    empty: Deployment, gpus: int
) -> None:
    name = f"handed-{gpus}"
    empty.seed(f"full.{gpus}", GPUS // gpus, memory="64Mi", gpu=gpus)
    assert gpus_in_use(empty) == GPUS
    asked = time.monotonic()
    empty.claim(f"full.{gpus}", name, image=BUSYBOX, template=RESTS)
    unit = empty.ready(name)
    took = time.monotonic() - asked
    phases = moments(unit)
    assert all(later - sooner > -GRAIN_SECONDS for sooner, later in pairwise(phases)), unit[
        "timeline"
    ]
    assert abs((phases[-1] - phases[0]) - took) < SLACK_SECONDS, (took, unit["timeline"])
    empty.caller.until(
        f"/gpu-units?lifecycle=stock&specName=full.{gpus}",
        lambda stock: len(stock) == GPUS // gpus - 1,
    )


def test_as_many_claims_as_gpus_all_run_on_a_full_node(empty: Deployment) -> None:
    """A Pod of unclaimed stock may end first; its unit is not ready again until it has a GPU."""
    empty.seed("crowd.1", GPUS, memory="64Mi", gpu=1)
    for number in range(GPUS):
        claim_with_retries(empty, f"crowd-{number}")
    for number in range(GPUS):
        empty.ready(f"crowd-{number}")


def test_a_claim_from_a_warm_pool_starts_without_a_pull(
    empty: Deployment, real_node: Node, images: Images, place: Path
) -> None:
    archive = place / "warm.tar"
    images.pack(archive, Image(name=WARM, command=("sh",)), "files", "busybox")
    real_node.take_image(archive)
    pool = {"operationID": "pool-warm", "name": "warm", "specName": "warm.1", "memory": "64Mi"}
    body = {**pool, "replicas": 1, "image": WARM, "template": RESTS}
    assert empty.caller.post("/operator/stockpools", body).status == 202
    empty.caller.until("/operator/stockpools/warm", lambda seen: seen["available"] == 1)
    empty.claim("warm.1", "warmed", image=WARM, template=RESTS)
    assert empty.ready("warmed")["image"] == WARM
    told = eventually_blocking(
        lambda: events_of(empty, "warmed"), lambda events: "Pulled" in events
    )
    assert "already present on machine" in told["Pulled"]
    assert "Pulling" not in told


def events_of(product: Deployment, unit: str) -> dict[str, str]:
    """Return the Events of the unit's Pod, by reason."""
    [pod] = product.pods_of(INSTANCE, f"runtime.lokiwager.io/unit={unit}")
    selector = f"--field-selector=involvedObject.uid={pod['metadata']['uid']}"
    found = product.plane.kubectl("get", "events", "-n", INSTANCE, selector, "-o", "json")
    return {event["reason"]: event["message"] for event in json.loads(found)["items"]}
