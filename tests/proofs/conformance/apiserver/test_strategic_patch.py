"""Strategic merge patches for built-in kinds: lists of named items are merged by their key."""

from typing import Any

import pytest

from tests.proofs.conformance.calls import STRATEGIC_PATCH, Api, Document
from tests.proofs.conformance.definitions import widget
from tests.proofs.conformance.objects import DEPLOYMENTS, SERVICES, deployment, named

CONTAINERS: list[Document] = [
    {
        "name": "main",
        "image": "example.com/main:1",
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
        "ports": [{"containerPort": 80}, {"containerPort": 81}],
        "args": ["x", "y"],
    },
    {"name": "side", "image": "example.com/side:1"},
]


@pytest.fixture
def deployments(namespace: str) -> str:
    return DEPLOYMENTS.path(namespace=namespace)


async def patched(api: Api, deployments: str, containers: list[Any]) -> list[Document]:
    """Create a paused Deployment, patch its containers, and return them."""
    body = deployment("d", replicas=0, template={"containers": CONTAINERS}, paused=True)
    (await api.post(deployments, body)).ok(201)
    patch = {"spec": {"template": {"spec": {"containers": containers}}}}
    answer = await api.patch(f"{deployments}/d", patch, content_type=STRATEGIC_PATCH)
    found: list[Document] = answer.ok(200)["spec"]["template"]["spec"]["containers"]
    return found


async def test_a_container_is_matched_by_its_name(api: Api, deployments: str) -> None:
    after = await patched(api, deployments, [{"name": "side", "image": "example.com/side:2"}])
    images = {one["name"]: one["image"] for one in after}
    assert images == {"main": "example.com/main:1", "side": "example.com/side:2"}


async def test_a_container_with_a_new_name_is_added(api: Api, deployments: str) -> None:
    after = await patched(api, deployments, [{"name": "new", "image": "example.com/new:1"}])
    assert sorted(one["name"] for one in after) == ["main", "new", "side"]


async def test_a_directive_deletes_a_container(api: Api, deployments: str) -> None:
    after = await patched(api, deployments, [{"$patch": "delete", "name": "side"}])
    assert [one["name"] for one in after] == ["main"]


async def test_a_directive_replaces_a_list(api: Api, deployments: str) -> None:
    only = {"name": "only", "image": "example.com/only:1"}
    after = await patched(api, deployments, [{"$patch": "replace"}, only])
    assert [one["name"] for one in after] == ["only"]


async def test_nested_keyed_lists_are_merged_too(api: Api, deployments: str) -> None:
    env = [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}]
    after = await patched(api, deployments, [{"name": "main", "env": env}])
    main = next(one for one in after if one["name"] == "main")
    values = {one["name"]: one["value"] for one in main["env"]}
    assert values == {"A": "1", "B": "3", "C": "4"}


async def test_a_list_without_a_key_is_replaced(api: Api, deployments: str) -> None:
    after = await patched(api, deployments, [{"name": "main", "args": ["z"]}])
    assert next(one for one in after if one["name"] == "main")["args"] == ["z"]


async def test_a_directive_orders_a_list(api: Api, deployments: str) -> None:
    body = deployment("d", replicas=0, template={"containers": CONTAINERS}, paused=True)
    (await api.post(deployments, body)).ok(201)
    order = [{"name": "side"}, {"name": "main"}]
    spec = {"$setElementOrder/containers": order, "containers": [{"name": "main", "image": "m"}]}
    patch = {"spec": {"template": {"spec": spec}}}
    after = (await api.patch(f"{deployments}/d", patch, content_type=STRATEGIC_PATCH)).ok(200)
    containers = after["spec"]["template"]["spec"]["containers"]
    assert [one["name"] for one in containers] == ["side", "main"]
    assert containers[1]["image"] == "m"


async def test_null_removes_a_member(api: Api, deployments: str) -> None:
    after = await patched(api, deployments, [{"name": "main", "args": None}])
    assert "args" not in next(one for one in after if one["name"] == "main")


async def test_a_map_is_merged(api: Api, deployments: str) -> None:
    (await api.post(deployments, deployment("d", replicas=0))).ok(201)
    for labels in ({"a": "1", "b": "2"}, {"a": None, "c": "3"}):
        patch = {"metadata": {"labels": labels}}
        (await api.patch(f"{deployments}/d", patch, content_type=STRATEGIC_PATCH)).ok(200)
    after = (await api.get(f"{deployments}/d")).ok()
    assert after["metadata"]["labels"] == {"b": "2", "c": "3"}


async def test_a_finalizer_is_added_and_another_deleted(api: Api, deployments: str) -> None:
    body = deployment("d", replicas=0)
    body["metadata"]["finalizers"] = ["example.com/a"]
    (await api.post(deployments, body)).ok(201)
    patch = {
        "metadata": {
            "finalizers": ["example.com/b"],
            "$deleteFromPrimitiveList/finalizers": ["example.com/a"],
        }
    }
    after = (await api.patch(f"{deployments}/d", patch, content_type=STRATEGIC_PATCH)).ok(200)
    assert after["metadata"]["finalizers"] == ["example.com/b"]


async def test_ports_of_a_service_are_matched_by_their_number(api: Api, namespace: str) -> None:
    services = SERVICES.path(namespace=namespace)
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]
    (await api.post(services, named(SERVICES, "s", spec={"ports": ports}))).ok(201)
    patch = {"spec": {"ports": [{"port": 81, "name": "c"}]}}
    after = (await api.patch(f"{services}/s", patch, content_type=STRATEGIC_PATCH)).ok(200)
    names = {one["port"]: one["name"] for one in after["spec"]["ports"]}
    assert names == {80: "a", 81: "c"}


async def test_a_custom_kind_accepts_no_strategic_patch(api: Api, widgets: str) -> None:
    (await api.post(widgets, widget("a"))).ok(201)
    patch = {"spec": {"size": 2}}
    answer = await api.patch(f"{widgets}/a", patch, content_type=STRATEGIC_PATCH)
    assert answer.refusal == (415, "UnsupportedMediaType")
