"""Consecutive watch windows lose nothing between them, and repeat nothing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from random import Random

import pytest

from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import ExpiredError, MalformedAnswerError, UnreachableError
from gpuruntime.kube.transport import Transport
from gpuruntime.kube.watch import Bookmark, Change, Selection, open_window
from gpuruntime.models.kubernetes.cluster import CONFIG_MAPS, ConfigMap
from gpuruntime.models.kubernetes.metadata import Key, PartialObject
from gpuruntime.models.kubernetes.resources import Resource
from tests.proofs.conformance import objects
from tests.proofs.machinery.lines import Line
from tests.proofs.machinery.mirrors import SELECTOR, ShortWindows, body, changed_to, make, value_of
from tests.proofs.machinery.worlds import World

DEADLINE_SECONDS = 60.0

Window = AbstractAsyncContextManager[AsyncIterator[Change[ConfigMap] | Bookmark]]


def window(line: Transport, namespace: str, version: str, *, rng: Random | None = None) -> Window:
    selection = Selection(namespace=namespace, label_selector=SELECTOR)
    return open_window(line, CONFIG_MAPS, version, rng=rng or Random(7), selection=selection)


async def changes(
    events: AsyncIterator[Change[ConfigMap] | Bookmark], count: int
) -> list[tuple[str, str, str]]:
    """Return type, name and value of the next events."""
    seen: list[tuple[str, str, str]] = []
    async with asyncio.timeout(DEADLINE_SECONDS):
        while len(seen) < count:
            event = await anext(events)
            if isinstance(event, Change):
                held = event.object
                seen.append((event.type.value, held.metadata.name, value_of(held)))
    return seen


def version_of(held: ConfigMap) -> str:
    return held.metadata.resourceVersion


async def test_a_window_sends_the_changes_after_its_version_in_order(
    line: Line, user: Client, namespace: str
) -> None:
    made = await make(user, namespace, "a")
    await make(user, namespace, "b")
    async with window(line, namespace, version_of(made)) as events:
        await user.patch(CONFIG_MAPS, made.metadata.key, changed_to("2"))
        await user.delete(CONFIG_MAPS, made.metadata.key)
        seen = await changes(events, 3)
    assert seen == [("ADDED", "b", "1"), ("MODIFIED", "a", "2"), ("DELETED", "a", "2")]


async def test_consecutive_windows_send_each_change_once(
    line: Line, user: Client, namespace: str
) -> None:
    """Writes go on between the end of one window and the beginning of the next."""
    made = await make(user, namespace, "a", "0")
    seen: list[str] = []
    version, windows = version_of(made), 0

    async def write() -> None:
        for number in range(1, 61):
            await user.patch(CONFIG_MAPS, made.metadata.key, changed_to(f"{number}"))
            await asyncio.sleep(0.1)

    async with asyncio.TaskGroup() as writers, asyncio.timeout(DEADLINE_SECONDS):
        writers.create_task(write())
        while not seen or seen[-1] != "60":
            async with window(line, namespace, version, rng=ShortWindows()) as events:
                windows += 1
                async for event in events:
                    if isinstance(event, Change):
                        seen.append(value_of(event.object))
                        version = version_of(event.object)
    assert seen == [f"{number}" for number in range(1, 61)]
    assert windows > 1


async def test_a_bookmark_names_a_version_to_continue_from(
    line: Line, user: Client, namespace: str
) -> None:
    made = await make(user, namespace, "a")
    async with window(line, namespace, version_of(made), rng=ShortWindows()) as events:
        other = body("other", "1", of="others")
        last = await user.create(CONFIG_MAPS, other, namespace=namespace)
        bookmark = [event async for event in events][-1]
    assert isinstance(bookmark, Bookmark)
    assert int(bookmark.resource_version) >= int(version_of(last))
    async with window(line, namespace, bookmark.resource_version) as events:
        await make(user, namespace, "b")
        assert await changes(events, 1) == [("ADDED", "b", "1")]


async def test_a_window_on_a_cut_line_breaks_and_the_next_one_continues(
    line: Line, user: Client, namespace: str
) -> None:
    made = await make(user, namespace, "a")
    async with window(line, namespace, version_of(made)) as events:
        line.cut()
        await make(user, namespace, "b")
        with pytest.raises(UnreachableError):
            await changes(events, 1)
    line.mend()
    async with window(line, namespace, version_of(made)) as events:
        assert await changes(events, 1) == [("ADDED", "b", "1")]


async def test_a_restart_of_the_server_ends_every_window(
    world: World, line: Line, user: Client, namespace: str
) -> None:
    """A window ends in order or by an error of its line; either way the next one continues."""
    made = await make(user, namespace, "a")
    async with asyncio.timeout(DEADLINE_SECONDS):
        try:
            async with window(line, namespace, version_of(made)) as events:
                await world.restart(False)
                async for _ in events:
                    pass
        except UnreachableError:
            pass
    page = await user.list_page(CONFIG_MAPS, namespace=namespace, label_selector=SELECTOR)
    assert [version_of(held) for held in page.items] == [version_of(made)]


async def test_a_window_from_a_forgotten_version_is_expired(
    world: World, line: Line, user: Client, namespace: str
) -> None:
    made = await make(user, namespace, "a")
    await user.patch(CONFIG_MAPS, made.metadata.key, changed_to("2"))
    await make(user, namespace, "b")
    await world.restart(True)
    with pytest.raises(ExpiredError):
        async with window(line, namespace, version_of(made)) as events:
            await changes(events, 1)


async def test_a_kind_that_is_not_served_has_no_windows(line: Line) -> None:
    unknown = Resource(
        group="nowhere.example.com", version="v1", kind="T", plural="ts", type=ConfigMap
    )
    with pytest.raises(MalformedAnswerError, match="that it serves ts"):
        async with open_window(line, unknown, "1", rng=Random(7)):
            pass


async def test_windows_of_metadata_carry_nothing_else(
    line: Line, user: Client, namespace: str
) -> None:
    made = await make(user, namespace, "a")
    async with open_window(
        line,
        objects.CONFIG_MAPS,
        version_of(made),
        rng=Random(7),
        selection=Selection(namespace=namespace),
    ) as events:
        await user.patch(CONFIG_MAPS, Key(namespace, "a"), changed_to("2"))
        event = await anext(events)
    assert isinstance(event, Change)
    assert isinstance(event.object, PartialObject)
    assert event.object.metadata.labels == {"of": "machinery"}
