"""Finalizers: a deleted object stays until its last finalizer is removed."""

import pytest
import pytest_asyncio

from tests.proofs.conformance.calls import Api, Document
from tests.proofs.conformance.definitions import widget
from tests.proofs.conformance.objects import config_map

HELD: Document = {"finalizers": ["example.com/a", "example.com/b"]}


@pytest_asyncio.fixture(params=["built-in", "custom"])
async def held(api: Api, maps: str, widgets: str, request: pytest.FixtureRequest) -> str:
    """Create an object with two finalizers, and return its path."""
    if request.param == "built-in":
        (await api.post(maps, config_map("a", **HELD))).ok(201)
        return f"{maps}/a"
    (await api.post(widgets, widget("a", metadata=HELD))).ok(201)
    return f"{widgets}/a"


async def deleted(api: Api, path: str) -> Document:
    (await api.delete(path)).ok(200)
    return (await api.get(path)).ok(200)


async def test_a_deletion_sets_the_time_and_returns_the_object(api: Api, held: str) -> None:
    before = (await api.get(held)).ok()
    answer = (await api.delete(held)).ok(200)
    assert answer["metadata"]["deletionTimestamp"]
    assert answer["metadata"]["deletionGracePeriodSeconds"] == 0
    assert answer["metadata"]["resourceVersion"] > before["metadata"]["resourceVersion"]
    assert (await api.get(held)).ok() == answer


async def test_a_second_deletion_changes_nothing(api: Api, held: str) -> None:
    first = await deleted(api, held)
    assert await deleted(api, held) == first


async def test_removing_the_last_finalizer_removes_the_object(api: Api, held: str) -> None:
    await deleted(api, held)
    one = (await api.patch(held, {"metadata": {"finalizers": ["example.com/b"]}})).ok(200)
    assert one["metadata"]["finalizers"] == ["example.com/b"]
    (await api.patch(held, {"metadata": {"finalizers": None}})).ok(200)
    assert (await api.get(held)).refusal == (404, "NotFound")


async def test_a_replacement_can_remove_the_last_finalizer(api: Api, held: str) -> None:
    seen = await deleted(api, held)
    del seen["metadata"]["finalizers"]
    (await api.put(held, seen)).ok(200)
    assert (await api.get(held)).status == 404


async def test_an_object_being_deleted_accepts_no_new_finalizer(api: Api, held: str) -> None:
    await deleted(api, held)
    patch = {"metadata": {"finalizers": [*HELD["finalizers"], "example.com/c"]}}
    answer = await api.patch(held, patch)
    assert answer.causes == {("metadata.finalizers", "FieldValueForbidden")}


async def test_an_object_being_deleted_can_still_be_changed(api: Api, held: str) -> None:
    await deleted(api, held)
    after = (await api.patch(held, {"metadata": {"labels": {"k": "v"}}})).ok(200)
    assert after["metadata"]["labels"] == {"k": "v"}


async def test_a_deletion_cannot_be_undone(api: Api, held: str) -> None:
    seen = await deleted(api, held)
    patch = {"metadata": {"deletionTimestamp": None, "deletionGracePeriodSeconds": None}}
    after = (await api.patch(held, patch)).ok(200)
    assert after["metadata"]["deletionTimestamp"] == seen["metadata"]["deletionTimestamp"]


async def test_a_name_is_taken_until_the_object_is_gone(api: Api, maps: str) -> None:
    (await api.post(maps, config_map("a", **HELD))).ok(201)
    await deleted(api, f"{maps}/a")
    assert (await api.post(maps, config_map("a"))).refusal == (409, "AlreadyExists")


async def test_removing_finalizers_of_an_object_that_stays_is_a_plain_change(
    api: Api, held: str
) -> None:
    after = (await api.patch(held, {"metadata": {"finalizers": None}})).ok(200)
    assert "finalizers" not in after["metadata"]
    (await api.get(held)).ok(200)


async def test_a_precondition_also_guards_the_deletion_mark(api: Api, held: str) -> None:
    answer = await api.delete(held, {"preconditions": {"resourceVersion": "1"}})
    assert answer.refusal == (409, "Conflict")
    assert "deletionTimestamp" not in (await api.get(held)).ok()["metadata"]
