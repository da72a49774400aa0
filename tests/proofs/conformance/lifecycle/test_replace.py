"""PUT: the version as precondition, and what a replacement cannot change."""

from typing import Any

from tests.proofs.conformance.calls import Api, Document
from tests.proofs.conformance.definitions import widget
from tests.proofs.conformance.objects import config_map


async def made(api: Api, maps: str, **metadata: Any) -> Document:
    return (await api.post(maps, config_map("a", {"k": "v"}, **metadata))).ok(201)


async def test_a_write_with_the_current_version_succeeds(api: Api, maps: str) -> None:
    seen = await made(api, maps)
    after = (await api.put(f"{maps}/a", {**seen, "data": {"k": "w"}})).ok(200)
    assert after["data"] == {"k": "w"}
    assert int(after["metadata"]["resourceVersion"]) > int(seen["metadata"]["resourceVersion"])


async def test_a_stale_version_is_a_conflict_and_changes_nothing(api: Api, maps: str) -> None:
    seen = await made(api, maps)
    newer = (await api.put(f"{maps}/a", {**seen, "data": {"k": "w"}})).ok()
    answer = await api.put(f"{maps}/a", {**seen, "data": {"k": "x"}})
    assert answer.refusal == (409, "Conflict")
    assert answer.body["details"] == {"name": "a", "kind": "configmaps"}
    assert (await api.get(f"{maps}/a")).ok() == newer


async def test_without_a_version_the_last_write_wins(api: Api, maps: str) -> None:
    await made(api, maps)
    after = (await api.put(f"{maps}/a", config_map("a", {"k": "w"}))).ok(200)
    assert after["data"] == {"k": "w"}


async def test_a_custom_object_is_not_replaced_without_a_version(api: Api, widgets: str) -> None:
    (await api.post(widgets, widget("a"))).ok(201)
    answer = await api.put(f"{widgets}/a", widget("a", size=2))
    assert answer.causes == {("metadata.resourceVersion", "FieldValueInvalid")}


async def test_a_replacement_without_changes_keeps_the_version(api: Api, maps: str) -> None:
    seen = await made(api, maps)
    assert (await api.put(f"{maps}/a", seen)).ok(200) == seen


async def test_omitted_members_are_removed(api: Api, maps: str) -> None:
    await made(api, maps, labels={"x": "y"})
    after = (await api.put(f"{maps}/a", config_map("a"))).ok()
    assert "data" not in after
    assert "labels" not in after["metadata"]


async def test_uid_and_creation_time_survive_a_replacement_without_them(
    api: Api, maps: str
) -> None:
    seen = (await made(api, maps))["metadata"]
    after = (await api.put(f"{maps}/a", config_map("a", {"k": "w"}))).ok()["metadata"]
    assert after["uid"] == seen["uid"]
    assert after["creationTimestamp"] == seen["creationTimestamp"]


async def test_another_uid_is_a_conflict(api: Api, maps: str) -> None:
    await made(api, maps)
    answer = await api.put(f"{maps}/a", config_map("a", uid="another"))
    assert answer.refusal == (409, "Conflict")


async def test_a_name_other_than_the_paths_is_400(api: Api, maps: str) -> None:
    await made(api, maps)
    answer = await api.put(f"{maps}/a", config_map("b"))
    assert answer.refusal == (400, "BadRequest")


async def test_a_body_without_a_name_is_400(api: Api, maps: str) -> None:
    await made(api, maps)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "w"}}
    answer = await api.put(f"{maps}/a", body)
    assert answer.refusal == (400, "BadRequest")


async def test_an_absent_object_is_404(api: Api, maps: str) -> None:
    answer = await api.put(f"{maps}/a", config_map("a", resourceVersion="1"))
    assert answer.refusal == (404, "NotFound")


async def test_another_kind_is_400(api: Api, maps: str) -> None:
    await made(api, maps)
    answer = await api.put(f"{maps}/a", {**config_map("a"), "kind": "Secret"})
    assert answer.refusal == (400, "BadRequest")


async def test_an_immutable_config_map_cannot_change(api: Api, maps: str) -> None:
    (await api.post(maps, {**config_map("a", {"k": "v"}), "immutable": True})).ok(201)
    answer = await api.put(f"{maps}/a", {**config_map("a", {"k": "w"}), "immutable": True})
    assert answer.causes == {("data", "FieldValueForbidden")}


async def test_a_dry_run_returns_the_result_and_stores_nothing(api: Api, maps: str) -> None:
    seen = await made(api, maps)
    after = (await api.put(f"{maps}/a", {**seen, "data": {"k": "w"}}, dryRun="All")).ok()
    assert after["data"] == {"k": "w"}
    assert (await api.get(f"{maps}/a")).ok() == seen
