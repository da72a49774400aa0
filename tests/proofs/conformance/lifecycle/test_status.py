"""The status subresource: spec and status are written by separate requests."""

import pytest

from tests.proofs.conformance.calls import Api, Document
from tests.proofs.conformance.definitions import gadget, widget
from tests.proofs.conformance.objects import (
    DEPLOYMENTS,
    JOBS,
    NODES,
    PODS,
    SERVICES,
    config_map,
    deployment,
    job,
    named,
    node,
    owner,
    pod,
)


async def test_a_status_sent_with_a_new_object_is_dropped(api: Api, widgets: str) -> None:
    made = (await api.post(widgets, {**widget("a"), "status": {"phase": "Ready"}})).ok(201)
    assert "status" not in made


async def test_a_write_of_the_object_keeps_the_status(api: Api, widgets: str) -> None:
    (await api.post(widgets, widget("a"))).ok(201)
    (await api.patch(f"{widgets}/a/status", {"status": {"phase": "Ready"}})).ok(200)
    patch = {"spec": {"size": 2}, "status": {"phase": "Failed"}}
    after = (await api.patch(f"{widgets}/a", patch)).ok(200)
    assert after["spec"]["size"] == 2
    assert after["status"] == {"phase": "Ready"}


async def test_a_replacement_without_status_keeps_it(api: Api, widgets: str) -> None:
    (await api.post(widgets, widget("a"))).ok(201)
    seen = (await api.patch(f"{widgets}/a/status", {"status": {"phase": "Ready"}})).ok(200)
    body = widget("a", size=3, metadata={"resourceVersion": seen["metadata"]["resourceVersion"]})
    assert (await api.put(f"{widgets}/a", body)).ok(200)["status"] == {"phase": "Ready"}


async def test_a_status_write_keeps_the_spec(api: Api, widgets: str) -> None:
    (await api.post(widgets, widget("a"))).ok(201)
    patch = {"spec": {"size": 9}, "status": {"phase": "Ready"}}
    after = (await api.patch(f"{widgets}/a/status", patch)).ok(200)
    assert after["spec"]["size"] == 1
    assert after["status"] == {"phase": "Ready"}


async def test_a_status_write_keeps_the_metadata(api: Api, widgets: str) -> None:
    (await api.post(widgets, widget("a"))).ok(201)
    metadata = {
        "labels": {"k": "v"},
        "annotations": {"k": "v"},
        "finalizers": ["example.com/a"],
    }
    patch = {"metadata": metadata, "status": {"phase": "Ready"}}
    after = (await api.patch(f"{widgets}/a/status", patch)).ok(200)
    assert not metadata.keys() & after["metadata"].keys()


async def test_a_status_is_replaced_as_a_whole(api: Api, widgets: str) -> None:
    (await api.post(widgets, widget("a"))).ok(201)
    patch = {"status": {"phase": "Ready", "count": 1}}
    seen = (await api.patch(f"{widgets}/a/status", patch)).ok(200)
    after = (await api.put(f"{widgets}/a/status", {**seen, "status": {"count": 2}})).ok(200)
    assert after["status"] == {"count": 2}


async def test_a_stale_version_is_a_conflict(api: Api, widgets: str) -> None:
    seen = (await api.post(widgets, widget("a"))).ok(201)
    (await api.patch(f"{widgets}/a", {"spec": {"size": 2}})).ok(200)
    guard = {"resourceVersion": seen["metadata"]["resourceVersion"]}
    patch = {"metadata": guard, "status": {"phase": "Ready"}}
    assert (await api.patch(f"{widgets}/a/status", patch)).refusal == (409, "Conflict")


async def test_a_status_write_without_changes_keeps_the_version(api: Api, widgets: str) -> None:
    (await api.post(widgets, widget("a"))).ok(201)
    patch = {"status": {"phase": "Ready"}}
    seen = (await api.patch(f"{widgets}/a/status", patch)).ok(200)
    assert (await api.patch(f"{widgets}/a/status", patch)).ok(200) == seen


async def test_a_status_is_validated_by_its_schema(api: Api, widgets: str) -> None:
    (await api.post(widgets, widget("a"))).ok(201)
    answer = await api.patch(f"{widgets}/a/status", {"status": {"count": "many"}})
    assert answer.causes == {("status.count", "FieldValueTypeInvalid")}


async def test_unknown_members_of_a_status_are_pruned(api: Api, widgets: str) -> None:
    (await api.post(widgets, widget("a"))).ok(201)
    patch = {"status": {"phase": "Ready", "unknown": 1}}
    after = (await api.patch(f"{widgets}/a/status", patch)).ok(200)
    assert after["status"] == {"phase": "Ready"}


async def test_the_status_of_an_absent_object_is_404(api: Api, widgets: str) -> None:
    answer = await api.patch(f"{widgets}/a/status", {"status": {}})
    assert answer.refusal == (404, "NotFound")


async def test_the_status_path_returns_the_whole_object(api: Api, widgets: str) -> None:
    made = (await api.post(widgets, widget("a"))).ok(201)
    assert (await api.get(f"{widgets}/a/status")).ok(200) == made


async def test_a_kind_without_the_subresource_has_no_status_path(
    api: Api, gadgets: str, unique: str
) -> None:
    (await api.post(gadgets, {**gadget(unique), "status": {"phase": "Ready"}})).ok(201)
    answer = await api.patch(f"{gadgets}/{unique}/status", {"status": {"phase": "Failed"}})
    assert answer.status == 404
    after = (await api.patch(f"{gadgets}/{unique}", {"status": {"phase": "Failed"}})).ok(200)
    assert after["status"] == {"phase": "Failed"}


async def test_a_config_map_has_no_status_path(api: Api, maps: str) -> None:
    (await api.post(maps, config_map("a"))).ok(201)
    assert (await api.get(f"{maps}/a/status")).status == 404


async def test_only_a_status_write_changes_a_pods_status(api: Api, namespace: str) -> None:
    pods = PODS.path(namespace=namespace)
    body = {**pod("p", nodeSelector={"nowhere": "at-all"}), "status": {"phase": "Running"}}
    assert (await api.admit(pods, body))["status"]["phase"] == "Pending"
    patch = {"status": {"phase": "Failed", "reason": "Evicted"}}
    after = (await api.patch(f"{pods}/p/status", patch)).ok(200)
    assert after["status"]["phase"] == "Failed"


@pytest.mark.parametrize("of", ["pod", "job", "service", "node"])
async def test_a_status_write_of_a_built_in_kind_changes_metadata_too(
    api: Api, namespace: str, unique: str, of: str
) -> None:
    path, body = {
        "pod": (PODS.path(namespace=namespace), pod(unique)),
        "job": (JOBS.path(namespace=namespace), job(unique, suspend=True)),
        "service": (
            SERVICES.path(namespace=namespace),
            named(SERVICES, unique, spec={"ports": [{"port": 80}]}),
        ),
        "node": (NODES.path(), node(unique, gpus=0)),
    }[of]
    made = await api.admit(path, body)
    metadata = {"labels": {"l": "1"}, "annotations": {"a": "1"}}
    after = (await api.patch(f"{path}/{unique}/status", {"metadata": metadata})).ok(200)
    assert after["metadata"]["labels"]["l"] == "1"
    assert after["metadata"]["annotations"]["a"] == "1"
    assert after["metadata"].get("generation") == made["metadata"].get("generation")
    await api.delete(f"{path}/{unique}")


async def test_a_status_write_of_a_deployment_changes_annotations_but_not_labels(
    api: Api, namespace: str
) -> None:
    path = DEPLOYMENTS.path(namespace=namespace)
    (await api.post(path, deployment("a"))).ok(201)
    metadata = {"labels": {"l": "1"}, "annotations": {"a": "1"}}
    after = (await api.patch(f"{path}/a/status", {"metadata": metadata})).ok(200)
    assert "l" not in after["metadata"].get("labels", {})
    assert after["metadata"]["annotations"]["a"] == "1"
    assert after["metadata"]["generation"] == 1


async def test_a_status_write_of_a_pod_adds_no_owner(api: Api, maps: str, namespace: str) -> None:
    made = (await api.post(maps, config_map("a"))).ok(201)
    path = PODS.path(namespace=namespace)
    await api.admit(path, pod("a"))
    references: Document = {"metadata": {"ownerReferences": [owner(made)]}}
    after = (await api.patch(f"{path}/a/status", references)).ok(200)
    assert "ownerReferences" not in after["metadata"]
