"""Namespaces: deletion empties them, and refuses new objects meanwhile."""

import pytest

from tests.proofs.conformance.calls import Api, Document
from tests.proofs.conformance.definitions import widget
from tests.proofs.conformance.objects import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    NAMESPACES,
    PODS,
    config_map,
    deployment,
    named,
)

pytestmark = pytest.mark.usefixtures("controllers")


def is_terminating(seen: Document) -> bool:
    return bool(seen["status"]["phase"] == "Terminating")


async def test_a_new_namespace_is_active_and_named_by_a_label(api: Api, namespace: str) -> None:
    seen = (await api.get(NAMESPACES.path(name=namespace))).ok(200)
    assert seen["status"]["phase"] == "Active"
    assert seen["metadata"]["labels"] == {"kubernetes.io/metadata.name": namespace}
    assert seen["spec"]["finalizers"] == ["kubernetes"]


async def test_the_initial_namespaces_exist(api: Api) -> None:
    names = {one["metadata"]["name"] for one in (await api.get(NAMESPACES.path())).ok()["items"]}
    assert {"default", "kube-system"} <= names


async def test_objects_are_deleted_with_their_namespace(
    api: Api, namespace: str, maps: str, widgets: str
) -> None:
    (await api.post(maps, config_map("a"))).ok(201)
    (await api.post(widgets, widget("a"))).ok(201)
    (await api.post(DEPLOYMENTS.path(namespace=namespace), deployment("d"))).ok(201)
    answer = (await api.delete(NAMESPACES.path(name=namespace))).ok(200)
    assert answer["metadata"]["deletionTimestamp"]
    assert is_terminating(answer)
    await api.gone(NAMESPACES.path(name=namespace))
    for path in (maps, widgets, PODS.path(namespace=namespace)):
        assert (await api.get(path)).ok(200)["items"] == []


async def test_an_object_with_a_finalizer_holds_its_namespace(
    api: Api, namespace: str, maps: str
) -> None:
    (await api.post(maps, config_map("a", finalizers=["example.com/hold"]))).ok(201)
    (await api.delete(NAMESPACES.path(name=namespace))).ok(200)
    await api.settled(f"{maps}/a", lambda seen: "deletionTimestamp" in seen["metadata"])
    assert is_terminating((await api.get(NAMESPACES.path(name=namespace))).ok(200))
    (await api.patch(f"{maps}/a", {"metadata": {"finalizers": None}})).ok(200)
    await api.gone(NAMESPACES.path(name=namespace))


async def test_a_terminating_namespace_refuses_new_objects(
    api: Api, namespace: str, maps: str
) -> None:
    (await api.post(maps, config_map("a", finalizers=["example.com/hold"]))).ok(201)
    (await api.delete(NAMESPACES.path(name=namespace))).ok(200)
    answer = await api.post(maps, config_map("b"))
    assert answer.refusal == (403, "Forbidden")
    assert answer.body["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    (await api.patch(f"{maps}/a", {"metadata": {"labels": {"k": "v"}, "finalizers": None}})).ok()


async def test_a_recreated_namespace_is_empty(api: Api, namespace: str, maps: str) -> None:
    (await api.post(maps, config_map("a"))).ok(201)
    path = NAMESPACES.path(name=namespace)
    first = (await api.get(path)).ok()["metadata"]["uid"]
    (await api.delete(path)).ok(200)
    await api.gone(path)
    again = (await api.post(NAMESPACES.path(), named(NAMESPACES, namespace))).ok(201)
    assert again["metadata"]["uid"] != first
    assert (await api.get(f"{maps}/a")).status == 404


async def test_the_default_namespace_cannot_be_deleted(api: Api) -> None:
    answer = await api.delete(NAMESPACES.path(name="default"))
    assert answer.refusal == (403, "Forbidden")


async def test_other_namespaces_are_not_affected(api: Api, namespace: str, maps: str) -> None:
    other = f"{namespace}-other"
    (await api.post(NAMESPACES.path(), named(NAMESPACES, other))).ok(201)
    (await api.post(CONFIG_MAPS.path(namespace=other), config_map("a"))).ok(201)
    (await api.post(maps, config_map("a"))).ok(201)
    (await api.delete(NAMESPACES.path(name=other))).ok(200)
    await api.gone(NAMESPACES.path(name=other))
    (await api.get(f"{maps}/a")).ok(200)
