"""Deployments: from creation to running Pods, and the status on the way."""

from typing import Any

import pytest

from tests.proofs.conformance.calls import Api, Document
from tests.proofs.conformance.objects import DEPLOYMENTS, PODS, REPLICA_SETS, deployment, pod_spec

pytestmark = pytest.mark.usefixtures("controllers")


@pytest.fixture
def deployments(namespace: str) -> str:
    return DEPLOYMENTS.path(namespace=namespace)


@pytest.fixture
def pods(namespace: str) -> str:
    return PODS.path(namespace=namespace)


@pytest.fixture
def replica_sets(namespace: str) -> str:
    return REPLICA_SETS.path(namespace=namespace)


def condition(document: Document, kind: str) -> Document:
    found = document.get("status", {}).get("conditions") or []
    return next((one for one in found if one["type"] == kind), {})


def has_settled(replicas: int) -> Any:
    """Return a check that all counts of the status equal this number."""

    def is_settled(seen: Document) -> bool:
        status = seen.get("status", {})
        counts = [status.get(name, 0) for name in ("replicas", "updatedReplicas", "readyReplicas")]
        is_current = status.get("observedGeneration") == seen["metadata"]["generation"]
        return is_current and counts == [replicas] * 3

    return is_settled


async def items(api: Api, path: str) -> list[Document]:
    found: list[Document] = (await api.get(path)).ok()["items"]
    return found


async def running(api: Api, deployments: str, body: Document) -> Document:
    (await api.post(deployments, body)).ok(201)
    path = f"{deployments}/{body['metadata']['name']}"
    return await api.settled(path, has_settled(body["spec"]["replicas"]))


async def test_a_deployment_becomes_running_pods(
    api: Api, deployments: str, replica_sets: str, pods: str
) -> None:
    made = await running(api, deployments, deployment("d", replicas=2))
    (replica_set,) = await items(api, replica_sets)
    found = await items(api, pods)
    hashed = replica_set["metadata"]["labels"]["pod-template-hash"]
    assert replica_set["metadata"]["name"] == f"d-{hashed}"
    assert replica_set["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    assert len(found) == 2
    for one in found:
        assert one["metadata"]["name"].startswith(f"d-{hashed}-")
        assert one["metadata"]["labels"] == {"app": "d", "pod-template-hash": hashed}
        (reference,) = one["metadata"]["ownerReferences"]
        assert reference["uid"] == replica_set["metadata"]["uid"]
        assert reference["controller"] is True
        assert one["status"]["phase"] == "Running"
        assert one["spec"]["nodeName"]


async def test_the_status_of_a_complete_deployment(api: Api, deployments: str) -> None:
    await running(api, deployments, deployment("d", replicas=2))
    path = f"{deployments}/d"
    seen = await api.settled(
        path, lambda one: condition(one, "Progressing").get("reason") == "NewReplicaSetAvailable"
    )
    assert seen["status"]["availableReplicas"] == 2
    assert "unavailableReplicas" not in seen["status"]
    assert condition(seen, "Available")["status"] == "True"
    assert condition(seen, "Available")["reason"] == "MinimumReplicasAvailable"
    assert condition(seen, "Progressing")["status"] == "True"


async def test_running_pods_report_their_conditions(api: Api, deployments: str, pods: str) -> None:
    await running(api, deployments, deployment("d"))
    (one,) = await items(api, pods)
    conditions = {each["type"]: each["status"] for each in one["status"]["conditions"]}
    assert conditions["PodScheduled"] == "True"
    assert conditions["Ready"] == "True"
    assert conditions["ContainersReady"] == "True"
    (container,) = one["status"]["containerStatuses"]
    assert (container["name"], container["ready"], container["restartCount"]) == ("main", True, 0)
    assert "running" in container["state"]
    assert one["status"]["podIP"]
    assert one["status"]["startTime"]


@pytest.mark.parametrize("replicas", [0, 3])
async def test_a_deployment_scales(api: Api, deployments: str, pods: str, replicas: int) -> None:
    await running(api, deployments, deployment("d", replicas=1))
    (await api.patch(f"{deployments}/d", {"spec": {"replicas": replicas}})).ok(200)
    await api.settled(f"{deployments}/d", has_settled(replicas))
    found = await api.until(lambda: items(api, pods), lambda seen: len(seen) == replicas)
    assert all("deletionTimestamp" not in one["metadata"] for one in found)


async def test_a_deployment_scales_by_its_subresource(api: Api, deployments: str) -> None:
    await running(api, deployments, deployment("d", replicas=1))
    seen = (await api.get(f"{deployments}/d/scale")).ok(200)
    assert (seen["kind"], seen["spec"]["replicas"]) == ("Scale", 1)
    assert seen["status"] == {"replicas": 1, "selector": "app=d"}
    (await api.patch(f"{deployments}/d/scale", {"spec": {"replicas": 2}})).ok(200)
    await api.settled(f"{deployments}/d", has_settled(2))


async def test_a_deleted_pod_is_replaced(api: Api, deployments: str, pods: str) -> None:
    await running(api, deployments, deployment("d"))
    (lost,) = await items(api, pods)
    (await api.delete(f"{pods}/{lost['metadata']['name']}")).ok(200)

    def is_another(seen: list[Document]) -> bool:
        uids = [one["metadata"]["uid"] for one in seen]
        return len(uids) == 1 and uids != [lost["metadata"]["uid"]]

    await api.until(lambda: items(api, pods), is_another)
    await api.settled(f"{deployments}/d", has_settled(1))


async def test_a_failed_pod_is_replaced(api: Api, deployments: str, pods: str) -> None:
    body = deployment("d", template=pod_spec(nodeSelector={"nowhere": "at-all"}))
    (await api.post(deployments, body)).ok(201)
    (first,) = await api.until(lambda: items(api, pods), bool)
    path = f"{pods}/{first['metadata']['name']}/status"
    (await api.patch(path, {"status": {"phase": "Failed", "reason": "Evicted"}})).ok(200)
    found = await api.until(
        lambda: items(api, pods),
        lambda seen: any(one["status"]["phase"] == "Pending" for one in seen),
    )
    assert first["metadata"]["uid"] not in {
        one["metadata"]["uid"] for one in found if one["status"]["phase"] == "Pending"
    }


async def test_recreate_deletes_the_old_pod_before_it_creates_the_new_one(
    api: Api, deployments: str, pods: str
) -> None:
    await running(api, deployments, deployment("d", strategy={"type": "Recreate"}))
    listed = (await api.get(pods)).ok()
    version = listed["metadata"]["resourceVersion"]
    old = listed["items"][0]["metadata"]["uid"]
    template = pod_spec()
    template["containers"][0]["image"] = "example.com/main:2"
    async with api.watch(pods, resourceVersion=version) as watch:
        (await api.patch(f"{deployments}/d", {"spec": {"template": {"spec": template}}})).ok(200)
        order = []
        while "ADDED" not in order:
            event = await watch.next()
            assert event
            order.append(event.type)
            if event.type == "DELETED":
                assert event.object["metadata"]["uid"] == old
    assert order[-2:] == ["DELETED", "ADDED"]
    await api.settled(f"{deployments}/d", has_settled(1))


async def test_a_new_template_creates_a_new_replica_set(
    api: Api, deployments: str, replica_sets: str, pods: str
) -> None:
    await running(api, deployments, deployment("d", replicas=2))
    template = pod_spec()
    template["containers"][0]["image"] = "example.com/main:2"
    (await api.patch(f"{deployments}/d", {"spec": {"template": {"spec": template}}})).ok(200)
    await api.settled(f"{deployments}/d", has_settled(2))
    wanted = {
        one["metadata"]["annotations"]["deployment.kubernetes.io/revision"]: one["spec"][
            "replicas"
        ]
        for one in await items(api, replica_sets)
    }
    assert wanted == {"1": 0, "2": 2}
    found = await api.until(lambda: items(api, pods), lambda seen: len(seen) == 2)
    images = {one["spec"]["containers"][0]["image"] for one in found}
    assert images == {"example.com/main:2"}


async def test_labels_of_the_deployment_restart_no_pods(
    api: Api, deployments: str, pods: str
) -> None:
    await running(api, deployments, deployment("d"))
    before = [one["metadata"]["uid"] for one in await items(api, pods)]
    (await api.patch(f"{deployments}/d", {"metadata": {"labels": {"k": "v"}}})).ok(200)
    (await api.patch(f"{deployments}/d", {"spec": {"replicas": 2}})).ok(200)
    await api.settled(f"{deployments}/d", has_settled(2))
    assert set(before) < {one["metadata"]["uid"] for one in await items(api, pods)}


async def test_a_paused_deployment_makes_no_pods(
    api: Api, deployments: str, replica_sets: str
) -> None:
    (await api.post(deployments, deployment("d", paused=True))).ok(201)
    path = f"{deployments}/d"
    await api.settled(path, lambda seen: seen.get("status", {}).get("observedGeneration") == 1)
    assert await items(api, replica_sets) == []
    (await api.patch(path, {"spec": {"paused": False}})).ok(200)
    await api.settled(path, has_settled(1))


async def test_a_deployment_without_room_is_not_available(api: Api, deployments: str) -> None:
    nowhere = pod_spec(nodeSelector={"nowhere": "at-all"})
    body = deployment("d", template=nowhere, progressDeadlineSeconds=1)
    (await api.post(deployments, body)).ok(201)
    seen = await api.settled(
        f"{deployments}/d", lambda one: condition(one, "Progressing").get("status") == "False"
    )
    assert condition(seen, "Progressing")["reason"] == "ProgressDeadlineExceeded"
    assert condition(seen, "Available")["status"] == "False"
    assert condition(seen, "Available")["reason"] == "MinimumReplicasUnavailable"
    assert seen["status"]["unavailableReplicas"] == 1


async def test_a_deleted_deployment_deletes_its_children(
    api: Api, deployments: str, replica_sets: str, pods: str
) -> None:
    await running(api, deployments, deployment("d", replicas=2))
    (await api.delete(f"{deployments}/d", {"propagationPolicy": "Background"})).ok(200)
    await api.until(lambda: items(api, replica_sets), lambda seen: not seen)
    await api.until(lambda: items(api, pods), lambda seen: not seen)


async def test_a_foreground_deletion_removes_a_deployment_after_its_pods(
    api: Api, deployments: str, pods: str
) -> None:
    await running(api, deployments, deployment("d"))
    (await api.delete(f"{deployments}/d", {"propagationPolicy": "Foreground"})).ok(200)
    await api.gone(f"{deployments}/d")
    assert await items(api, pods) == []


def another_selector(body: Document) -> None:
    body["spec"]["selector"] = {"matchLabels": {"app": "other"}}


def without_selector(body: Document) -> None:
    del body["spec"]["selector"]


def without_containers(body: Document) -> None:
    body["spec"]["template"]["spec"]["containers"] = []


def with_negative_replicas(body: Document) -> None:
    body["spec"]["replicas"] = -1


def with_a_bad_quantity(body: Document) -> None:
    resources = {"limits": {"cpu": "-1"}}
    body["spec"]["template"]["spec"]["containers"][0]["resources"] = resources


def with_half_a_gpu(body: Document) -> None:
    resources = {"limits": {"nvidia.com/gpu": "500m"}}
    body["spec"]["template"]["spec"]["containers"][0]["resources"] = resources


def with_two_of_a_name(body: Document) -> None:
    containers = body["spec"]["template"]["spec"]["containers"]
    containers.append(dict(containers[0]))


def with_a_bad_port(body: Document) -> None:
    body["spec"]["template"]["spec"]["containers"][0]["ports"] = [{"containerPort": 70000}]


TEMPLATE = "spec.template.spec"


@pytest.mark.parametrize(
    ("spoil", "cause"),
    [
        (another_selector, ("spec.template.metadata.labels", "FieldValueInvalid")),
        (without_selector, ("spec.selector", "FieldValueRequired")),
        (without_containers, (f"{TEMPLATE}.containers", "FieldValueRequired")),
        (with_negative_replicas, ("spec.replicas", "FieldValueInvalid")),
        (
            with_a_bad_quantity,
            (f"{TEMPLATE}.containers[0].resources.limits[cpu]", "FieldValueInvalid"),
        ),
        (
            with_half_a_gpu,
            (f"{TEMPLATE}.containers[0].resources.limits[nvidia.com/gpu]", "FieldValueInvalid"),
        ),
        (with_two_of_a_name, (f"{TEMPLATE}.containers[1].name", "FieldValueDuplicate")),
        (
            with_a_bad_port,
            (f"{TEMPLATE}.containers[0].ports[0].containerPort", "FieldValueInvalid"),
        ),
    ],
    ids=[
        "other selector",
        "no selector",
        "no containers",
        "negative replicas",
        "negative quantity",
        "half a GPU",
        "duplicate name",
        "port out of range",
    ],
)
async def test_an_invalid_deployment_is_refused(
    api: Api, deployments: str, spoil: Any, cause: tuple[str, str]
) -> None:
    body = deployment("d")
    spoil(body)
    assert cause in (await api.post(deployments, body)).causes


async def test_a_malformed_quantity_is_400(api: Api, deployments: str) -> None:
    body = deployment("d")
    resources = {"limits": {"memory": "not-a-quantity"}}
    body["spec"]["template"]["spec"]["containers"][0]["resources"] = resources
    assert (await api.post(deployments, body)).refusal == (400, "BadRequest")


async def test_a_selector_cannot_change(api: Api, deployments: str) -> None:
    (await api.post(deployments, deployment("d", replicas=0))).ok(201)
    labels = {"app": "e"}
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}}
    answer = await api.patch(f"{deployments}/d", {"spec": spec})
    assert ("spec.selector", "FieldValueInvalid") in answer.causes
