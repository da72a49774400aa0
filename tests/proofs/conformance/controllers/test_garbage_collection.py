"""Owners and dependents: background and foreground deletion, orphans, and missing owners."""

from typing import Any

import pytest

from tests.proofs.conformance.calls import Api, Document
from tests.proofs.conformance.definitions import widget
from tests.proofs.conformance.objects import config_map, owner

pytestmark = pytest.mark.usefixtures("controllers")


async def made(api: Api, maps: str, name: str, *owners: Document, **metadata: Any) -> Document:
    body = config_map(name, ownerReferences=list(owners), **metadata)
    return (await api.post(maps, body)).ok(201)


async def test_dependents_are_deleted_after_their_owner(api: Api, maps: str) -> None:
    above = await made(api, maps, "owner")
    child = await made(api, maps, "child", owner(above))
    await made(api, maps, "grandchild", owner(child))
    (await api.delete(f"{maps}/owner", {"propagationPolicy": "Background"})).ok(200)
    assert (await api.get(f"{maps}/owner")).status == 404
    await api.gone(f"{maps}/child")
    await api.gone(f"{maps}/grandchild")


async def test_a_deletion_is_in_the_background_by_default(api: Api, maps: str) -> None:
    above = await made(api, maps, "owner")
    await made(api, maps, "child", owner(above))
    (await api.delete(f"{maps}/owner")).ok(200)
    await api.gone(f"{maps}/child")


async def test_foreground_deletion_removes_the_owner_last(api: Api, maps: str) -> None:
    above = await made(api, maps, "owner")
    reference = owner(above, controller=True, blockOwnerDeletion=True)
    await made(api, maps, "child", reference, finalizers=["example.com/hold"])
    (await api.delete(f"{maps}/owner", {"propagationPolicy": "Foreground"})).ok(200)
    seen = (await api.get(f"{maps}/owner")).ok(200)["metadata"]
    assert seen["deletionTimestamp"]
    assert seen["finalizers"] == ["foregroundDeletion"]
    await api.settled(f"{maps}/child", lambda child: "deletionTimestamp" in child["metadata"])
    (await api.get(f"{maps}/owner")).ok(200)
    (await api.patch(f"{maps}/child", {"metadata": {"finalizers": None}})).ok(200)
    await api.gone(f"{maps}/owner")
    assert (await api.get(f"{maps}/child")).status == 404


async def test_a_foreground_deletion_does_not_wait_for_a_child_that_does_not_block(
    api: Api, maps: str
) -> None:
    above = await made(api, maps, "owner")
    await made(api, maps, "child", owner(above), finalizers=["example.com/hold"])
    (await api.delete(f"{maps}/owner", {"propagationPolicy": "Foreground"})).ok(200)
    await api.gone(f"{maps}/owner")
    await api.settled(f"{maps}/child", lambda child: "deletionTimestamp" in child["metadata"])
    (await api.patch(f"{maps}/child", {"metadata": {"finalizers": None}})).ok(200)


async def test_an_orphan_loses_its_owner_and_stays(api: Api, maps: str) -> None:
    above = await made(api, maps, "owner")
    await made(api, maps, "child", owner(above))
    (await api.delete(f"{maps}/owner", {"propagationPolicy": "Orphan"})).ok(200)
    await api.gone(f"{maps}/owner")
    child = (await api.get(f"{maps}/child")).ok(200)["metadata"]
    assert "ownerReferences" not in child
    assert "deletionTimestamp" not in child


async def test_a_child_of_two_owners_stays_with_the_remaining_one(api: Api, maps: str) -> None:
    first, second = [await made(api, maps, name) for name in ("first", "second")]
    await made(api, maps, "child", owner(first), owner(second))
    (await api.delete(f"{maps}/first")).ok(200)

    def has_one_owner(child: Document) -> bool:
        return [one["name"] for one in child["metadata"]["ownerReferences"]] == ["second"]

    await api.settled(f"{maps}/child", has_one_owner)
    (await api.delete(f"{maps}/second")).ok(200)
    await api.gone(f"{maps}/child")


@pytest.mark.parametrize("uid", ["never-was", "another-than-now"])
async def test_a_child_of_an_absent_owner_is_deleted(api: Api, maps: str, uid: str) -> None:
    above = await made(api, maps, "owner")
    name = "owner" if uid == "another-than-now" else "nobody"
    await made(api, maps, "child", {**owner(above), "name": name, "uid": uid})
    await api.gone(f"{maps}/child")
    (await api.get(f"{maps}/owner")).ok(200)


async def test_a_child_recreated_for_a_recreated_owner_stays(api: Api, maps: str) -> None:
    await made(api, maps, "child", owner(await made(api, maps, "owner")))
    (await api.delete(f"{maps}/owner")).ok(200)
    await api.gone(f"{maps}/child")
    await made(api, maps, "child", owner(await made(api, maps, "owner")))
    await made(api, maps, "witness", owner(await made(api, maps, "other")))
    (await api.delete(f"{maps}/other")).ok(200)
    await api.gone(f"{maps}/witness")
    (await api.get(f"{maps}/child")).ok(200)


async def test_a_custom_object_can_be_an_owner(api: Api, maps: str, widgets: str) -> None:
    above = (await api.post(widgets, widget("a"))).ok(201)
    await made(api, maps, "child", owner(above, controller=True, blockOwnerDeletion=True))
    (await api.delete(f"{widgets}/a", {"propagationPolicy": "Background"})).ok(200)
    await api.gone(f"{maps}/child")
