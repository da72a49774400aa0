"""Watches: their start, their events and their end."""

import asyncio
from typing import Any

import pytest

from tests.proofs.conformance.calls import Api
from tests.proofs.conformance.definitions import widget
from tests.proofs.conformance.objects import config_map


async def created(api: Api, maps: str, name: str, **metadata: Any) -> str:
    """Create a ConfigMap that every watch here selects, and return its version."""
    labels = {"of": "watch", **metadata.pop("labels", {})}
    made = (await api.post(maps, config_map(name, labels=labels, **metadata))).ok(201)
    return str(made["metadata"]["resourceVersion"])


SELECTED: dict[str, Any] = {"labelSelector": "of=watch"}


async def test_a_watch_from_a_version_sends_later_changes(api: Api, maps: str) -> None:
    version = await created(api, maps, "a")
    await created(api, maps, "b")
    async with api.watch(maps, resourceVersion=version, **SELECTED) as watch:
        await created(api, maps, "c")
        assert await watch.summaries(2) == [("ADDED", "b"), ("ADDED", "c")]


async def test_changes_are_sent_in_order(api: Api, maps: str) -> None:
    version = await created(api, maps, "a")
    async with api.watch(maps, resourceVersion=version, **SELECTED) as watch:
        (await api.patch(f"{maps}/a", {"data": {"k": "v"}})).ok()
        (await api.delete(f"{maps}/a")).ok()
        await created(api, maps, "a")
        received = await watch.summaries(3)
    assert received == [("MODIFIED", "a"), ("DELETED", "a"), ("ADDED", "a")]


async def test_versions_of_events_increase(api: Api, maps: str) -> None:
    version = await created(api, maps, "a")
    async with api.watch(maps, resourceVersion=version, **SELECTED) as watch:
        (await api.patch(f"{maps}/a", {"data": {"k": "v"}})).ok()
        (await api.delete(f"{maps}/a")).ok()
        events = await watch.take(2)
    versions = [int(version), *(int(one.object["metadata"]["resourceVersion"]) for one in events)]
    assert versions == sorted(set(versions))


async def test_a_deletion_event_contains_the_last_object(api: Api, maps: str) -> None:
    version = await created(api, maps, "a")
    (await api.patch(f"{maps}/a", {"data": {"k": "v"}})).ok()
    (await api.delete(f"{maps}/a")).ok()
    async with api.watch(maps, resourceVersion=version, **SELECTED) as watch:
        deleted = (await watch.take(2))[1]
    assert deleted.type == "DELETED"
    assert deleted.object["data"] == {"k": "v"}
    assert deleted.object["kind"] == "ConfigMap"


async def test_an_update_without_changes_sends_no_event(api: Api, maps: str) -> None:
    version = await created(api, maps, "a")
    async with api.watch(maps, resourceVersion=version, **SELECTED) as watch:
        (await api.patch(f"{maps}/a", {"metadata": {"labels": {"of": "watch"}}})).ok()
        await created(api, maps, "b")
        assert await watch.summaries(1) == [("ADDED", "b")]


@pytest.mark.parametrize("start", [{}, {"resourceVersion": "0"}], ids=["none", "zero"])
async def test_a_watch_without_a_version_begins_with_existing_objects(
    api: Api, maps: str, start: dict[str, str]
) -> None:
    await created(api, maps, "a")
    await created(api, maps, "b")
    async with api.watch(maps, **start, **SELECTED) as watch:
        first = await watch.summaries(2)
        await created(api, maps, "c")
        assert await watch.summaries(1) == [("ADDED", "c")]
    assert sorted(first) == [("ADDED", "a"), ("ADDED", "b")]


async def test_objects_are_added_and_deleted_as_they_match_a_selector(api: Api, maps: str) -> None:
    version = await created(api, maps, "a")
    selector = "of=watch,color=red"
    async with api.watch(maps, resourceVersion=version, labelSelector=selector) as watch:
        for color in ("red", "red", "blue", "red"):
            labels = {"labels": {"color": color}, "annotations": {color: str(id(color))}}
            (await api.patch(f"{maps}/a", {"metadata": labels, "data": {"k": color}})).ok()
        (await api.delete(f"{maps}/a")).ok()
        received = await watch.summaries(4)
    assert received == [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "a"), ("DELETED", "a")]


async def test_an_object_that_no_longer_matches_has_the_version_of_its_change(
    api: Api, maps: str
) -> None:
    version = await created(api, maps, "a", labels={"color": "red"})
    async with api.watch(maps, resourceVersion=version, labelSelector="color=red") as watch:
        patch = {"metadata": {"labels": {"color": "blue"}}}
        after = (await api.patch(f"{maps}/a", patch)).ok()
        event = (await watch.take(1))[0]
    assert event.type == "DELETED"
    assert event.object["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]


async def test_one_object_is_watched_by_its_name(api: Api, maps: str) -> None:
    version = await created(api, maps, "a")
    selector = "metadata.name=b"
    async with api.watch(maps, resourceVersion=version, fieldSelector=selector) as watch:
        await created(api, maps, "x")
        await created(api, maps, "b")
        assert await watch.summaries(1) == [("ADDED", "b")]


async def test_a_watch_of_one_namespace_sends_nothing_of_another(
    api: Api, maps: str, namespace: str
) -> None:
    version = await created(api, maps, "a")
    async with api.watch(maps, resourceVersion=version, **SELECTED) as watch:
        await created(api, "/api/v1/namespaces/default/configmaps", f"x{namespace}")
        await created(api, maps, "b")
        assert await watch.summaries(1) == [("ADDED", "b")]


async def test_a_watch_of_all_namespaces_sends_events_of_each(
    api: Api, maps: str, namespace: str
) -> None:
    version = await created(api, maps, "a")
    query = {"resourceVersion": version, **SELECTED}
    async with api.watch("/api/v1/configmaps", **query) as watch:
        await created(api, "/api/v1/namespaces/default/configmaps", f"y{namespace}")
        await created(api, maps, "b")
        assert await watch.summaries(2) == [("ADDED", f"y{namespace}"), ("ADDED", "b")]


async def test_status_changes_of_custom_objects_are_sent(api: Api, widgets: str) -> None:
    made = (await api.post(widgets, widget("a"))).ok(201)
    version = made["metadata"]["resourceVersion"]
    async with api.watch(widgets, resourceVersion=version) as watch:
        (await api.patch(f"{widgets}/a/status", {"status": {"phase": "Ready"}})).ok()
        event = (await watch.take(1))[0]
    assert (event.type, event.object["status"]) == ("MODIFIED", {"phase": "Ready"})


async def test_a_deletion_with_finalizers_sends_two_events(api: Api, maps: str) -> None:
    version = await created(api, maps, "a", finalizers=["example.com/a"])
    async with api.watch(maps, resourceVersion=version, **SELECTED) as watch:
        (await api.delete(f"{maps}/a")).ok()
        (await api.patch(f"{maps}/a", {"metadata": {"finalizers": None}})).ok()
        marked, gone = await watch.take(2)
    assert (marked.type, gone.type) == ("MODIFIED", "DELETED")
    assert marked.object["metadata"]["deletionTimestamp"]


async def test_changes_of_many_writers_are_sent_completely_and_in_order(
    api: Api, maps: str
) -> None:
    version = await created(api, maps, "first")
    async with api.watch(maps, resourceVersion=version, **SELECTED) as watch:
        async with asyncio.TaskGroup() as group:
            for number in range(50):
                group.create_task(created(api, maps, f"m{number}"))
        events = await watch.take(50)
    versions = [int(one.object["metadata"]["resourceVersion"]) for one in events]
    assert versions == sorted(versions)
    assert {one.name for one in events} == {f"m{number}" for number in range(50)}


async def test_a_watch_ends_after_its_timeout(api: Api, maps: str) -> None:
    version = await created(api, maps, "a")
    started = asyncio.get_running_loop().time()
    async with api.watch(maps, resourceVersion=version, timeoutSeconds=1) as watch:
        while await watch.next():
            pass
    assert 0.9 < asyncio.get_running_loop().time() - started < 5


async def test_a_bookmark_reports_the_version_that_a_watch_has_reached(
    api: Api, maps: str, namespace: str
) -> None:
    """Expect a bookmark two seconds before the end, if a change outside the selector happened."""
    version = await created(api, maps, "a")
    query = {"resourceVersion": version, "timeoutSeconds": 4, **SELECTED}
    async with (
        api.watch(maps, allowWatchBookmarks=True, **query) as asking,
        api.watch(maps, **query) as silent,
    ):
        last = await created(api, "/api/v1/namespaces/default/configmaps", f"z{namespace}")
        bookmark = await asking.next()
        await created(api, maps, "b")
        assert await silent.summaries(1) == [("ADDED", "b")]
    assert bookmark
    assert bookmark.type == "BOOKMARK"
    assert bookmark.object["kind"] == "ConfigMap"
    metadata = bookmark.object["metadata"]
    assert int(metadata["resourceVersion"]) >= int(last)
    assert metadata.keys() <= {"resourceVersion", "creationTimestamp"}


async def test_initial_events_end_with_a_marked_bookmark(api: Api, maps: str) -> None:
    await created(api, maps, "a")
    await created(api, maps, "b")
    query = {
        "sendInitialEvents": True,
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": True,
        **SELECTED,
    }
    async with api.watch(maps, **query) as watch:
        first = await watch.summaries(2)
        mark = await watch.next()
        await created(api, maps, "c")
        assert await watch.summaries(1) == [("ADDED", "c")]
    assert sorted(first) == [("ADDED", "a"), ("ADDED", "b")]
    assert mark
    assert mark.type == "BOOKMARK"
    assert mark.object["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


@pytest.mark.parametrize("version", ["latest", "-1"])
async def test_a_malformed_version_is_refused(api: Api, maps: str, version: str) -> None:
    answer = await api.get(maps, watch=True, resourceVersion=version, timeoutSeconds=1)
    assert answer.status >= 400


async def test_a_malformed_selector_is_400(api: Api, maps: str) -> None:
    answer = await api.get(maps, watch=True, labelSelector="=", timeoutSeconds=1)
    assert answer.refusal == (400, "BadRequest")


async def test_partial_objects_can_be_watched(api: Api, maps: str) -> None:
    version = await created(api, maps, "a")
    accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    async with api.watch(maps, accept=accept, resourceVersion=version, **SELECTED) as watch:
        await created(api, maps, "b")
        event = (await watch.take(1))[0]
    assert event.object["kind"] == "PartialObjectMetadata"
    assert event.object["apiVersion"] == "meta.k8s.io/v1"
    assert event.name == "b"
    assert event.object.keys() == {"kind", "apiVersion", "metadata"}
