import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gpuruntime.embedded.apiserver.server import Server
from gpuruntime.embedded.apiserver.streams import FRAMES_A_CHUNK, Stream
from tests.rooms.embedded.calls import MAPS, ask, call, make, new_server

Event = tuple[str, dict[str, Any]]


def watch(server: Server, **query: str) -> Stream:
    return server.open_stream(ask("GET", MAPS, watch="1", **query))


async def events(stream: Stream) -> AsyncIterator[Event]:
    async for chunk in stream.chunks():
        for line in chunk.splitlines():
            event = json.loads(line)
            yield event["type"], event["object"]


async def all_of(stream: Stream) -> list[Event]:
    return [event async for event in events(stream)]


@pytest.mark.looptime
async def test_a_watch_from_a_compacted_version_reports_that_it_expired() -> None:
    server = new_server(history_limit=2)
    first = make(server, "a")["metadata"]["resourceVersion"]
    for name in ("b", "c", "d"):
        make(server, name)
    ((kind, status),) = await all_of(watch(server, resourceVersion=first))
    assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")


@pytest.mark.looptime
async def test_an_idle_watch_gets_a_bookmark_each_minute_and_one_before_its_end() -> None:
    server = new_server()
    version = make(server, "a")["metadata"]["resourceVersion"]
    stream = watch(
        server, resourceVersion=version, timeoutSeconds="150", allowWatchBookmarks="true"
    )
    loop = asyncio.get_running_loop()
    received = [(event[0], loop.time()) async for event in events(stream)]
    assert received == [("BOOKMARK", 60), ("BOOKMARK", 120), ("BOOKMARK", 148)]
    assert loop.time() == 150


@pytest.mark.looptime
async def test_the_watch_of_a_client_that_never_reads_ends_and_keeps_no_events() -> None:
    server = new_server(history_limit=50)
    stream = watch(server, resourceVersion=str(server.store.version))
    for number in range(51):
        make(server, f"a{number}")
    assert await all_of(stream) == []


@pytest.mark.looptime
async def test_a_slow_client_gets_its_events_in_chunks_of_limited_size() -> None:
    server = new_server()
    stream = watch(server, resourceVersion=str(server.store.version), timeoutSeconds="1")
    for number in range(2 * FRAMES_A_CHUNK + 1):
        make(server, f"a{number}")
    pieces = [chunk.count(b"\n") async for chunk in stream.chunks()]
    assert pieces == [FRAMES_A_CHUNK, FRAMES_A_CHUNK, 1]


@pytest.mark.looptime
async def test_each_of_a_thousand_watches_receives_only_matching_events() -> None:
    server = new_server()
    make(server, "a7")
    streams = [
        watch(server, fieldSelector=f"metadata.name=a{number}", timeoutSeconds="1")
        for number in range(1_000)
    ]
    call(server, "DELETE", f"{MAPS}/a7")
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(all_of(stream)) for stream in streams]
    counts = [len(task.result()) for task in tasks]
    assert (counts[7], sum(counts)) == (2, 2)


@pytest.mark.looptime
async def test_a_watch_from_a_future_version_receives_only_later_changes() -> None:
    server = new_server()
    version = server.store.version
    stream = watch(server, resourceVersion=str(version + 1), timeoutSeconds="1")
    make(server, "a")
    make(server, "b")
    assert [item["metadata"]["name"] for _, item in await all_of(stream)] == ["b"]


@pytest.mark.looptime
async def test_a_resumed_watch_receives_nothing_from_other_namespaces() -> None:
    server = new_server()
    version = str(server.store.version)
    call(server, "POST", MAPS.replace("default", "kube-system"), {"metadata": {"name": "b"}})
    make(server, "a")
    stream = watch(server, resourceVersion=version, timeoutSeconds="1")
    assert [item["metadata"]["name"] for _, item in await all_of(stream)] == ["a"]


@pytest.mark.looptime
async def test_an_ended_watch_is_removed() -> None:
    server = new_server()
    await all_of(watch(server, timeoutSeconds="1"))
    stream = watch(server)
    stream.close()
    (maps,) = (each for each in server.store.collections() if each.kind.kind == "ConfigMap")
    assert len(maps.watches) == 0
