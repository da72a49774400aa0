"""The way from curl to a running Pod on the real control plane, with the failures on it.

Two api replicas and a manager run, each role under its own account.
"""

import json
from typing import Any

import pytest

from tests.eventually import equals, eventually_blocking
from tests.proofs.product.conftest import Product
from tests.walkthrough import STOCK, UNIT

pytestmark = pytest.mark.cluster


def unit_of(spec: str, name: str) -> dict[str, Any]:
    return {**UNIT, "operationID": f"unit-{name}", "name": name, "specName": spec}


def seed(product: Product, spec: str, replicas: int) -> None:
    operation = f"stock-{spec}"
    body = {**STOCK, "operationID": operation, "specName": spec, "replicas": replicas}
    assert product.caller.post("/operator/stock-units", body).status == 202
    product.caller.until(f"/operator/jobs/{operation}", lambda job: job["ready"] == replicas)


def started(product: Product, spec: str, name: str) -> dict[str, Any]:
    """Seed stock for a unit, claim it, and return its view once it is ready."""
    seed(product, spec, 1)
    assert product.caller.post("/gpu-units", unit_of(spec, name)).status == 201
    return ready(product, name)


def ready(product: Product, name: str) -> dict[str, Any]:
    view: dict[str, Any] = product.caller.until(
        f"/gpu-units/{name}",
        lambda unit: unit["phase"] == "Ready" and unit["observedGeneration"] == unit["generation"],
    )
    return view


def condition_of(product: Product, name: str, reason: str) -> dict[str, Any]:
    view = product.caller.until(f"/gpu-units/{name}", lambda unit: unit["reason"] == reason)
    return next(each for each in view["conditions"] if each["type"] == "Ready")


def the_pod_of(product: Product, name: str) -> dict[str, Any]:
    def pods() -> list[dict[str, Any]]:
        selector = f"runtime.lokiwager.io/unit={name}"
        found = product.kubectl(
            "get", "pods", "-n", product.made.instance, "-l", selector, "-o", "json"
        )
        items: list[dict[str, Any]] = json.loads(found)["items"]
        return [each for each in items if "deletionTimestamp" not in each["metadata"]]

    return eventually_blocking(pods, lambda found: len(found) == 1)[0]


def apply(product: Product, document: dict[str, Any]) -> None:
    whole = {"apiVersion": "runtime.lokiwager.io/v1alpha1", **document}
    product.kubectl("apply", "-f", "-", stdin=json.dumps(whole))


def test_the_walk_through_leads_from_stock_to_a_ready_unit(product: Product) -> None:
    first, second = product.callers
    assert first.post("/operator/stock-units", STOCK).status == 202
    assert second.post("/operator/stock-units", STOCK).status == 200
    assert first.post("/operator/stock-units", {**STOCK, "replicas": 3}).status == 409
    job = second.until("/operator/jobs/stock-g1-demo-001", lambda job: job["ready"] == 2)
    assert (job["status"], job["created"], job["type"]) == ("succeeded", 2, "seed_stock_units")
    stock = eventually_blocking(
        lambda: second.get("/gpu-units?lifecycle=stock&specName=g1.1").data,
        lambda stock: [each["phase"] for each in stock] == ["Ready"] * 2,
    )
    assert [(each["memory"], each["gpu"]) for each in stock] == [("16Gi", 1)] * 2
    assert {(each["serviceName"], each["accessURL"]) for each in stock} == {("", "")}

    made = first.post("/gpu-units", UNIT)
    assert made.status == 201
    again = second.post("/gpu-units", UNIT)
    assert (again.status, again.headers["idempotent-replay"]) == (200, "true")
    assert again.data["sourceStock"] == made.data["sourceStock"]
    assert first.post("/gpu-units", {**UNIT, "image": "python:3.13"}).code == "operation_conflict"

    view = ready(product, "demo-instance")
    assert (view["specName"], view["memory"], view["gpu"]) == ("g1.1", "16Gi", 1)
    assert view["serviceName"] == "unit-demo-instance"
    assert view["accessURL"] == (
        "http://unit-demo-instance.runtime-instance.svc.cluster.local:8080"
    )
    left = eventually_blocking(
        lambda: second.get("/gpu-units?lifecycle=stock&specName=g1.1").data,
        lambda stock: len(stock) == 1,
    )
    assert left[0]["name"] != view["sourceStock"]["name"]

    assert "demo-instance" in product.kubectl("get", "gpuunits", "-n", "runtime-instance")
    unit = json.loads(
        product.kubectl("get", "gu", "demo-instance", "-n", "runtime-instance", "-o", "json")
    )
    annotations = unit["metadata"]["annotations"]
    source = view["sourceStock"]
    assert annotations["runtime.lokiwager.io/source-stock"] == f"runtime-stock/{source['name']}"
    assert annotations["runtime.lokiwager.io/source-stock-uid"] == source["uid"]
    children = product.kubectl("get", "deploy,svc", "-n", "runtime-instance", "-o", "name")
    assert {"deployment.apps/unit-demo-instance", "service/unit-demo-instance"} <= set(
        children.split()
    )
    container = the_pod_of(product, "demo-instance")["spec"]["containers"][0]
    assert (container["image"], container["command"]) == ("python:3.12", ["python"])
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"


def test_a_claim_without_stock_is_refused_and_leaves_nothing(product: Product) -> None:
    started(product, "g2.1", "taker")
    refused = product.caller.post("/gpu-units", unit_of("g2.1", "late"))
    assert (refused.status, refused.code) == (409, "insufficient_capacity")
    assert product.caller.get("/gpu-units/late").code == "gpuunit_not_found"
    stock = product.made.objects("gpuunits", product.made.stock)
    assert not [each for each in stock if each["spec"]["specName"] == "g2.1"]


def test_a_pool_refills_what_was_claimed(product: Product) -> None:
    pool = {**STOCK, "operationID": "pool-g3", "specName": "g3.1", "name": "warm", "replicas": 2}
    assert product.caller.post("/operator/stockpools", pool).status == 202
    assert product.callers[1].post("/operator/stockpools", pool).status == 200
    product.caller.until("/operator/stockpools/warm", lambda pool: pool["available"] == 2)
    assert product.caller.post("/gpu-units", unit_of("g3.1", "from-pool")).status == 201
    ready(product, "from-pool")
    view = product.caller.until(
        "/operator/stockpools/warm",
        lambda pool: (pool["available"], pool["consumed"], pool["seeded"]) == (2, 1, 3),
    )
    assert view["phase"] == "Ready"
    assert product.caller.delete("/operator/stockpools/warm").status == 204
    eventually_blocking(
        lambda: product.made.objects("gpuunits", product.made.stock),
        lambda stock: not [each for each in stock if each["spec"]["specName"] == "g3.1"],
    )
    eventually_blocking(
        lambda: product.caller.get("/operator/stockpools/warm").status,
        equals(404),
    )
    assert ready(product, "from-pool")["phase"] == "Ready"
    late = product.caller.post("/operator/stockpools", pool)
    assert (late.status, late.code) == (409, "operation_finished")


def test_a_second_envelope_of_one_spec_seeds_nothing(product: Product) -> None:
    seed(product, "g4.1", 1)
    other = {**STOCK, "operationID": "other-g4", "specName": "g4.1", "memory": "8Gi"}
    assert product.caller.post("/operator/stock-units", other).code == "spec_conflict"
    spec = {"specName": "g4.1", "memory": "8Gi", "cpu": "1", "gpu": 1, "replicas": 2}
    metadata = {"name": "by-hand", "namespace": product.made.stock}
    apply(product, {"kind": "StockPool", "metadata": metadata, "spec": spec})
    pool = product.caller.until(
        "/operator/stockpools/by-hand", lambda pool: pool["phase"] == "Failed"
    )
    assert pool["conditions"][0]["reason"] == "SpecConflict"
    assert pool["seeded"] == 0


def test_a_bad_quantity_written_past_the_api_fails_until_it_is_corrected(product: Product) -> None:
    metadata = {"name": "by-hand", "namespace": product.made.instance}
    spec = {"specName": "g5.1", "memory": "not-a-quantity", "image": "python:3.12"}
    apply(product, {"kind": "GPUUnit", "metadata": metadata, "spec": spec})
    said = condition_of(product, "by-hand", "InvalidSpec")
    assert "memory" in said["message"]
    assert product.caller.get("/gpu-units/by-hand").data["phase"] == "Failed"
    apply(product, {"kind": "GPUUnit", "metadata": metadata, "spec": {**spec, "memory": "1Gi"}})
    assert ready(product, "by-hand")["sourceStock"] is None


def test_the_last_message_of_a_crashing_pod_is_in_the_condition(product: Product) -> None:
    started(product, "g6.1", "crashing")
    pod = the_pod_of(product, "crashing")["metadata"]["name"]
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container"}
    last = {"exitCode": 1, "reason": "Error", "message": "ValueError: no model found"}
    status = {
        "conditions": [
            {"type": "Ready", "status": "False"},
            {"type": "ContainersReady", "status": "False"},
        ],
        "containerStatuses": [
            {
                "name": "runtime",
                "image": "python:3.12",
                "imageID": "",
                "ready": False,
                "restartCount": 3,
                "state": {"waiting": waiting},
                "lastState": {"terminated": last},
            }
        ],
    }
    product.kubectl(
        "patch", "pod", pod, "-n", product.made.instance, "--subresource=status",
        "-p", json.dumps({"status": status}),
    )  # fmt: skip
    said = condition_of(product, "crashing", "PodStartupFailed")
    assert f"{pod}/runtime: CrashLoopBackOff" in said["message"]
    assert "ValueError: no model found" in said["message"]
    mended = product.caller.put("/gpu-units/crashing", {"image": "python:3.13"})
    assert (mended.status, mended.data["image"]) == (200, "python:3.13")
    ready(product, "crashing")


def test_a_request_that_no_node_can_fit_is_reported_as_the_scheduler_words_it(
    product: Product,
) -> None:
    metadata = {"name": "greedy", "namespace": product.made.instance}
    spec = {"specName": "g7.1", "memory": "1Gi", "gpu": 5000}
    apply(product, {"kind": "GPUUnit", "metadata": metadata, "spec": spec})
    said = condition_of(product, "greedy", "PodUnschedulable")
    assert "Insufficient nvidia.com/gpu" in said["message"]
    assert product.caller.delete("/gpu-units/greedy").status == 204


def test_a_suspended_unit_keeps_its_name_and_runs_no_pod(product: Product) -> None:
    started(product, "g8.1", "sleeper")
    assert product.caller.put("/gpu-units/sleeper", {"suspended": True}).status == 200
    asleep = product.caller.until(
        "/gpu-units/sleeper", lambda unit: unit["reason"] == "ScaledToZero"
    )
    assert (asleep["phase"], asleep["readyReplicas"]) == ("Suspended", 0)
    assert product.callers[1].put("/gpu-units/sleeper", {"suspended": False}).status == 200
    ready(product, "sleeper")


def test_deleting_a_unit_deletes_its_children_and_finishes_its_operation(
    product: Product,
) -> None:
    started(product, "g9.1", "gone")
    assert product.caller.delete("/gpu-units/gone").status == 204
    eventually_blocking(
        lambda: product.callers[1].get("/gpu-units/gone"),
        lambda answer: answer.status == 404 and answer.code == "gpuunit_not_found",
    )
    late = product.callers[1].post("/gpu-units", unit_of("g9.1", "gone"))
    assert (late.status, late.code) == (409, "operation_finished")
    eventually_blocking(
        lambda: product.kubectl("get", "deploy,svc", "-n", product.made.instance, "-o", "name"),
        lambda names: "unit-gone" not in names,
    )


def test_deleting_a_unit_with_kubectl_finishes_its_operation_too(product: Product) -> None:
    started(product, "g10.1", "taken")
    product.kubectl("delete", "gpuunit", "taken", "-n", product.made.instance)
    eventually_blocking(
        lambda: product.caller.post("/gpu-units", unit_of("g10.1", "taken")),
        lambda late: late.status == 409 and late.code == "operation_finished",
    )


def test_children_that_were_changed_or_removed_come_back(product: Product) -> None:
    started(product, "g11.1", "mended")
    child, namespace = "unit-mended", product.made.instance
    product.kubectl("delete", "service", child, "-n", namespace)
    product.kubectl("scale", "deployment", child, "--replicas=0", "-n", namespace)
    eventually_blocking(
        lambda: product.kubectl("get", "svc", "-n", namespace, "-o", "name"),
        lambda names: f"service/{child}" in names,
    )
    eventually_blocking(
        lambda: product.kubectl(
            "get", "deploy", child, "-n", namespace, "-o", "jsonpath={.spec.replicas}"
        ),
        equals("1"),
    )
    ready(product, "mended")


def test_a_foreign_child_is_named_and_left_alone(product: Product) -> None:
    namespace = product.made.instance
    product.kubectl("create", "deployment", "unit-foreign", "--image=nginx:1.29", "-n", namespace)
    metadata = {"name": "foreign", "namespace": namespace}
    spec = {"specName": "g12.1", "memory": "1Gi"}
    apply(product, {"kind": "GPUUnit", "metadata": metadata, "spec": spec})
    said = condition_of(product, "foreign", "DeploymentSyncFailed")
    assert "unit-foreign" in said["message"]
    image = "jsonpath={.spec.template.spec.containers[0].image}"
    found = product.kubectl("get", "deploy", "unit-foreign", "-n", namespace, "-o", image)
    assert found == "nginx:1.29"
    product.kubectl("delete", "deployment", "unit-foreign", "-n", namespace)
    ready(product, "foreign")


def test_health_and_inventory_count_nodes_gpus_and_stock(product: Product) -> None:
    seed(product, "g13.1", 2)
    health = product.caller.get("/health").data
    assert (health["kubernetesConnected"], health["cacheSynced"]) == (True, True)
    assert (health["nodeCount"], health["gpuProducts"]) == (2, ["NVIDIA-TEST"])
    assert health["totalGPUCapacity"] == 2048
    inventory = json.dumps(product.caller.get("/operator/inventory").data)
    assert '"g13.1"' in inventory
