"""Claims on a cluster whose every GPU is held by stock, with the real scheduler.

Each test has its own nodes and selects them by their GPU product.
"""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.eventually import eventually_blocking
from tests.proofs.product.claims.concurrent_callers import (
    SMALL,
    concurrent_callers,
    order,
    seed,
    units_of,
    wait_until_running,
    wait_until_sound,
)
from tests.proofs.product.conftest import Product, running
from tests.proofs.real_cluster.controlplane import ControlPlane, Options, fake_node
from tests.proofs.real_cluster.fixtures import started
from tests.proofs.real_cluster.product import Answer, installation

pytestmark = pytest.mark.cluster

GPUS_PER_NODE = 20
NODES = 2
SEATS = NODES * GPUS_PER_NODE
FURTHER = 20
FEW = 10


@pytest.fixture(scope="module")
def plane(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[ControlPlane]:
    yield from started(tmp_path_factory, pytestconfig, Options(nodes=0))


@pytest.fixture(scope="module")
def full(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    with installation(plane, tmp_path_factory.mktemp("full")) as made:
        # The garbage collector discovers new kinds every 30 s. A restart makes it start with ours.
        plane.kill("kube-controller-manager")
        plane.start("kube-controller-manager")
        yield running(made)


@pytest.fixture(autouse=True)
def sound_in_the_end(full: Product) -> Iterator[None]:
    yield
    wait_until_sound(full.caller)


def add_nodes(plane: ControlPlane, gpu_product: str) -> None:
    labels = {"nvidia.com/gpu.product": gpu_product}
    for number in range(NODES):
        node = fake_node(f"{gpu_product}-{number}", GPUS_PER_NODE, labels.items())
        plane.request("POST", "/api/v1/nodes", node)


async def claimed_at_once(product: Product, orders: list[dict[str, Any]]) -> list[Answer]:
    async with concurrent_callers(product.apis) as callers, asyncio.TaskGroup() as tasks:
        sent = [
            tasks.create_task(callers.claim(each, replica=number % 2))
            for number, each in enumerate(orders)
        ]
    return [each.result() for each in sent]


def stocked(product: Product, spec: str, count: int, gpu_product: str) -> None:
    """Seed stock units with a GPU each; units without a free GPU stay pending."""
    seed(product.caller, spec, count, ready=SEATS, gpu=1, gpuProduct=gpu_product)


def nodes_of_pods(product: Product, namespace: str, spec: str) -> list[str]:
    """Return the node of each Pod, or an empty text for a pending Pod."""
    return [
        each["spec"].get("nodeName", "")
        for each in product.made.objects("pods", namespace)
        if each["metadata"]["labels"]["runtime.lokiwager.io/spec"] == spec
    ]


def uids_of(units: list[dict[str, Any]]) -> set[str]:
    return {each["metadata"]["uid"] for each in units}


async def test_stock_displaced_by_a_claim_takes_the_gpu_that_the_claim_freed(
    full: Product,
) -> None:
    add_nodes(full.made.plane, "some-claimed")
    stocked(full, "some.1", SEATS, "some-claimed")
    before = uids_of(units_of(full.made, "some.1", full.made.stock))
    answers = await claimed_at_once(
        full, [order(f"some-{number}", "some.1") for number in range(FEW)]
    )
    assert [each.status for each in answers] == [201] * FEW
    wait_until_running(full.caller, "some.1", FEW)
    job = full.caller.until("/operator/jobs/stock-some.1", lambda job: job["ready"] == SEATS - FEW)
    assert job["created"] == SEATS
    claimed = {each.data["sourceStock"]["uid"] for each in answers}
    assert uids_of(units_of(full.made, "some.1", full.made.stock)) == before - claimed


def test_a_refilling_pool_creates_nothing_for_a_displaced_pod(full: Product) -> None:
    add_nodes(full.made.plane, "displaced")
    pool = {"operationID": "pool-held", "name": "held", "specName": "held.1", "replicas": SEATS}
    envelope = {**SMALL, "gpu": 1, "gpuProduct": "displaced"}
    assert full.caller.post("/operator/stockpools", {**pool, **envelope}).status == 202
    path = "/operator/stockpools/held"
    full.caller.until(path, lambda pool: pool["available"] == SEATS)
    before = uids_of(units_of(full.made, "held.1", full.made.stock))

    stranger = {
        "apiVersion": "runtime.lokiwager.io/v1alpha1",
        "kind": "GPUUnit",
        "metadata": {"name": "stranger", "namespace": full.made.instance},
        "spec": {"specName": "other.1", **envelope},
    }
    full.kubectl("apply", "-f", "-", stdin=json.dumps(stranger))
    full.caller.until("/gpu-units/stranger", lambda unit: unit["phase"] == "Ready")
    displaced = full.caller.until(path, lambda pool: pool["progressing"] == 1)
    assert (displaced["available"], displaced["seeded"]) == (SEATS - 1, SEATS)

    assert full.caller.delete("/gpu-units/stranger").status == 204
    mended = full.caller.until(path, lambda pool: pool["available"] == SEATS)
    assert mended["seeded"] == SEATS
    assert uids_of(units_of(full.made, "held.1", full.made.stock)) == before


async def test_every_claim_on_a_full_cluster_runs_and_pending_stock_stays_pending(
    full: Product,
) -> None:
    add_nodes(full.made.plane, "all-held")
    stocked(full, "full.1", SEATS + FURTHER, "all-held")
    answers = await claimed_at_once(
        full, [order(f"full-{number}", "full.1") for number in range(SEATS)]
    )
    assert [each.status for each in answers] == [201] * SEATS
    wait_until_running(full.caller, "full.1", SEATS)
    assert all(nodes_of_pods(full, full.made.instance, "full.1"))
    # The garbage collector deletes the other Pods in its own time.
    left = eventually_blocking(
        lambda: nodes_of_pods(full, full.made.stock, "full.1"), lambda pods: len(pods) == FURTHER
    )
    assert left == [""] * FURTHER
    assert len(units_of(full.made, "full.1", full.made.stock)) == FURTHER


def test_a_unit_resumed_where_every_gpu_is_taken_reports_the_schedulers_refusal(
    full: Product,
) -> None:
    """Once a GPU is free, the unit runs; nothing else touches it in between."""
    add_nodes(full.made.plane, "resumed")
    seed(full.caller, "back.1", 1, gpu=1, gpuProduct="resumed")
    caller, path = full.caller, "/gpu-units/back"
    assert caller.post("/gpu-units", order("back", "back.1")).status == 201
    caller.until(path, lambda unit: unit["phase"] == "Ready")
    assert caller.put(path, {"suspended": True}).status == 200
    caller.until(path, lambda unit: unit["phase"] == "Suspended")
    others = {"specName": "all.1", **SMALL, "gpu": GPUS_PER_NODE, "gpuProduct": "resumed"}
    for number in range(NODES):
        other = {
            "apiVersion": "runtime.lokiwager.io/v1alpha1",
            "kind": "GPUUnit",
            "metadata": {"name": f"other-{number}", "namespace": full.made.instance},
            "spec": others,
        }
        full.kubectl("apply", "-f", "-", stdin=json.dumps(other))
        caller.until(f"/gpu-units/other-{number}", lambda unit: unit["phase"] == "Ready")
    assert caller.put(path, {"suspended": False}).status == 200
    refused = caller.until(path, lambda unit: unit["reason"] == "PodUnschedulable")
    assert "Insufficient nvidia.com/gpu" in refused["message"]
    for number in range(NODES):
        assert caller.delete(f"/gpu-units/other-{number}").status == 204
    caller.until(path, lambda unit: unit["phase"] == "Ready")
