"""PATCH as a merge patch: null, lists and preconditions."""

import asyncio
from typing import Any

import pytest

from tests.proofs.conformance.calls import Api
from tests.proofs.conformance.definitions import widget
from tests.proofs.conformance.objects import config_map


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ({"data": {"b": "2"}}, {"a": "1", "b": "2"}),
        ({"data": {"a": "3"}}, {"a": "3"}),
        ({"data": {"a": None, "b": "2"}}, {"b": "2"}),
        ({"data": {"z": None}}, {"a": "1"}),
        ({"data": {}}, {"a": "1"}),
        ({"data": None}, None),
        ({}, {"a": "1"}),
    ],
    ids=str,
)
async def test_members_are_merged_and_null_removes_them(
    api: Api, maps: str, patch: dict[str, Any], expected: dict[str, str] | None
) -> None:
    (await api.post(maps, config_map("m", {"a": "1"}))).ok(201)
    assert (await api.patch(f"{maps}/m", patch)).ok(200).get("data") == expected


async def test_a_list_is_replaced_as_a_whole(api: Api, widgets: str) -> None:
    (await api.post(widgets, widget("a", tags=["x", "y"]))).ok(201)
    after = (await api.patch(f"{widgets}/a", {"spec": {"tags": ["z"]}})).ok(200)
    assert after["spec"]["tags"] == ["z"]


async def test_a_keyed_list_is_replaced_as_a_whole_too(api: Api, widgets: str) -> None:
    (await api.post(widgets, widget("a", parts=[{"name": "x"}, {"name": "y"}]))).ok(201)
    after = (await api.patch(f"{widgets}/a", {"spec": {"parts": [{"name": "z"}]}})).ok(200)
    assert after["spec"]["parts"] == [{"name": "z", "count": 1}]


async def test_a_removed_member_gets_its_default_again(api: Api, widgets: str) -> None:
    (await api.post(widgets, widget("a", color="blue"))).ok(201)
    after = (await api.patch(f"{widgets}/a", {"spec": {"color": None}})).ok(200)
    assert after["spec"]["color"] == "red"


async def test_a_patch_without_changes_keeps_the_version(api: Api, maps: str) -> None:
    seen = (await api.post(maps, config_map("a", {"k": "v"}))).ok(201)
    assert (await api.patch(f"{maps}/a", {"data": {"k": "v"}})).ok(200) == seen


async def test_a_write_with_the_current_version_succeeds(api: Api, maps: str) -> None:
    seen = (await api.post(maps, config_map("a"))).ok(201)
    guard = {"resourceVersion": seen["metadata"]["resourceVersion"]}
    (await api.patch(f"{maps}/a", {"metadata": guard, "data": {"k": "v"}})).ok(200)


async def test_a_stale_version_is_a_conflict_and_changes_nothing(api: Api, maps: str) -> None:
    seen = (await api.post(maps, config_map("a"))).ok(201)
    guard = {"resourceVersion": seen["metadata"]["resourceVersion"]}
    newer = (await api.patch(f"{maps}/a", {"data": {"k": "v"}})).ok()
    answer = await api.patch(f"{maps}/a", {"metadata": guard, "data": {"k": "w"}})
    assert answer.refusal == (409, "Conflict")
    assert answer.body["details"] == {"name": "a", "kind": "configmaps"}
    assert (await api.get(f"{maps}/a")).ok() == newer


async def test_a_stale_version_is_a_conflict_even_without_a_change(api: Api, maps: str) -> None:
    seen = (await api.post(maps, config_map("a"))).ok(201)
    guard = {"resourceVersion": seen["metadata"]["resourceVersion"]}
    (await api.patch(f"{maps}/a", {"data": {"k": "v"}})).ok()
    answer = await api.patch(f"{maps}/a", {"metadata": guard})
    assert answer.refusal == (409, "Conflict")


async def test_a_uid_cannot_be_patched(api: Api, maps: str) -> None:
    (await api.post(maps, config_map("a"))).ok(201)
    answer = await api.patch(f"{maps}/a", {"metadata": {"uid": "another"}})
    assert answer.causes == {("metadata.uid", "FieldValueInvalid")}


async def test_an_absent_object_is_404(api: Api, maps: str) -> None:
    answer = await api.patch(f"{maps}/a", {"data": {"k": "v"}})
    assert answer.refusal == (404, "NotFound")
    assert answer.body["details"] == {"name": "a", "kind": "configmaps"}


async def test_a_name_cannot_be_patched(api: Api, maps: str) -> None:
    (await api.post(maps, config_map("a"))).ok(201)
    answer = await api.patch(f"{maps}/a", {"metadata": {"name": "b"}})
    assert answer.refusal == (400, "BadRequest")


async def test_a_patch_that_is_not_an_object_is_400(api: Api, maps: str) -> None:
    (await api.post(maps, config_map("a"))).ok(201)
    answer = await api.patch(f"{maps}/a", ["data"])
    assert answer.refusal == (400, "BadRequest")


async def test_a_patch_that_makes_an_object_invalid_is_refused(api: Api, widgets: str) -> None:
    (await api.post(widgets, widget("a"))).ok(201)
    answer = await api.patch(f"{widgets}/a", {"spec": {"size": 11}})
    assert answer.causes == {("spec.size", "FieldValueInvalid")}


async def test_creation_time_and_uid_cannot_be_removed(api: Api, maps: str) -> None:
    seen = (await api.post(maps, config_map("a"))).ok(201)["metadata"]
    gone = {"creationTimestamp": None, "uid": None}
    after = (await api.patch(f"{maps}/a", {"metadata": gone})).ok(200)["metadata"]
    assert after["uid"] == seen["uid"]
    assert after["creationTimestamp"] == seen["creationTimestamp"]


async def test_a_dry_run_returns_the_result_and_stores_nothing(api: Api, maps: str) -> None:
    seen = (await api.post(maps, config_map("a"))).ok(201)
    after = (await api.patch(f"{maps}/a", {"data": {"k": "v"}}, dryRun="All")).ok(200)
    assert after["data"] == {"k": "v"}
    assert (await api.get(f"{maps}/a")).ok() == seen


async def test_of_concurrent_writers_with_one_version_exactly_one_succeeds(
    api: Api, maps: str
) -> None:
    seen = (await api.post(maps, config_map("a"))).ok(201)
    guard = {"resourceVersion": seen["metadata"]["resourceVersion"]}

    async def claim(number: int) -> int:
        patch = {"metadata": guard, "data": {"by": str(number)}}
        return (await api.patch(f"{maps}/a", patch)).status

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(claim(number)) for number in range(10)]
    assert sorted(task.result() for task in tasks) == [200] + [409] * 9
