"""An informer mirrors its server through windows, outages and a forgotten history."""

import asyncio
from random import Random

import pytest

from gpuruntime.informer.recovery import Listed, Watching
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import AlreadyExistsError, NotFoundError
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kubernetes.cluster import CONFIG_MAPS
from gpuruntime.models.kubernetes.metadata import Key
from tests.proofs.machinery.lines import Line
from tests.proofs.machinery.mirrors import (
    Mirror,
    ShortWindows,
    body,
    changed_to,
    make,
    server_view,
)
from tests.proofs.machinery.worlds import World

MORE_THAN_A_PAGE = 520
AT_ONCE = 8


async def fill(client: Client, namespace: str, count: int) -> None:
    async def some(first: int) -> None:
        for number in range(first, count, AT_ONCE):
            await make(client, namespace, f"n{number}")

    async with asyncio.TaskGroup() as writers:
        for first in range(AT_ONCE):
            writers.create_task(some(first))


async def change_all(user: Client, namespace: str) -> None:
    """Change a, delete b, keep c and create d."""
    await user.patch(CONFIG_MAPS, Key(namespace, "a"), changed_to("2"))
    await user.delete(CONFIG_MAPS, Key(namespace, "b"))
    await make(user, namespace, "d")


AFTER_ALL_CHANGES = {"a": "2", "c": "1", "d": "1"}
ALL_CHANGES_ANNOUNCED = {"a": ["1", "2"], "b": ["1", None], "c": ["1"], "d": ["1"]}


@pytest.fixture
def mirror(line: Line, namespace: str) -> Mirror:
    return Mirror(line, namespace)


async def test_more_than_a_page_is_listed_and_then_followed_by_events(
    mirror: Mirror, user: Client, namespace: str
) -> None:
    await fill(user, namespace, MORE_THAN_A_PAGE)
    async with mirror.running():
        assert len(mirror.informer.store) == MORE_THAN_A_PAGE
        assert mirror.tally.of("kube_requests_total list") == 2

        await user.patch(CONFIG_MAPS, Key(namespace, "n0"), changed_to("2"))
        await user.delete(CONFIG_MAPS, Key(namespace, "n1"))
        await mirror.until(lambda: mirror.view.get("n0") == "2" and "n1" not in mirror.view)
        assert mirror.tally.of("kube_requests_total list") == 2


async def test_objects_enter_and_leave_a_mirror_with_their_label(
    mirror: Mirror, user: Client, namespace: str
) -> None:
    await user.create(CONFIG_MAPS, body("a", "1", of="others"), namespace=namespace)
    async with mirror.running():
        assert mirror.view == {}
        for of in ("machinery", "others"):
            patch: JsonObject = {"metadata": {"labels": {"of": of}}}
            await user.patch(CONFIG_MAPS, Key(namespace, "a"), patch)
        await mirror.until(lambda: len(mirror.announced.get("a", [])) == 2)
        assert mirror.announced == {"a": ["1", None]}


async def test_an_own_write_is_visible_at_once_and_announced_once(
    mirror: Mirror, namespace: str
) -> None:
    made = await make(mirror.client, namespace, "a")
    async with mirror.running():
        written = await mirror.client.patch(CONFIG_MAPS, made.metadata.key, changed_to("2"))
        mirror.informer.write_through(written)
        assert mirror.view == {"a": "2"}
        await mirror.informer.catch_up()
        assert mirror.announced == {"a": ["1", "2"]}


async def test_a_deleted_object_is_not_revived_by_the_late_answer_to_its_write(
    mirror: Mirror, user: Client, namespace: str
) -> None:
    made = await make(user, namespace, "a")
    async with mirror.running():
        written = await user.patch(CONFIG_MAPS, made.metadata.key, changed_to("2"))
        await user.delete(CONFIG_MAPS, made.metadata.key)
        await mirror.until(lambda: mirror.view == {})
        assert not mirror.informer.write_through(written)


async def test_catching_up_covers_everything_written_before(
    mirror: Mirror, user: Client, namespace: str
) -> None:
    async with mirror.running():
        await fill(user, namespace, 50)
        await mirror.informer.catch_up()
        assert mirror.view == await server_view(user, namespace)


async def test_a_window_that_ends_is_resumed_without_another_list(
    line: Line, user: Client, namespace: str
) -> None:
    mirror = Mirror(line, namespace, rng=ShortWindows())
    await make(user, namespace, "a")
    async with mirror.running():
        for value in ("2", "3"):
            ended = mirror.tally.of("informer_watch_restarts_total ended")
            await mirror.tally.until("informer_watch_restarts_total ended", ended + 1)
            await user.patch(CONFIG_MAPS, Key(namespace, "a"), changed_to(value))
        await mirror.until(lambda: mirror.view == {"a": "3"})
        assert mirror.announced == {"a": ["1", "2", "3"]}
        assert mirror.tally.of("kube_requests_total list") == 1


async def test_bookmarks_advance_an_informer_past_objects_it_does_not_select(
    line: Line, user: Client, namespace: str
) -> None:
    """The real server sends a bookmark only if anything changed since the window was opened."""
    mirror = Mirror(line, namespace, rng=ShortWindows())
    async with mirror.running():
        await make(user, namespace, "a")
        await mirror.until(lambda: "a" in mirror.view)
        other = body("other", "1", of="others")
        last = await user.create(CONFIG_MAPS, other, namespace=namespace)
        ended = mirror.tally.of("informer_watch_restarts_total ended")
        await mirror.tally.until("informer_watch_restarts_total ended", ended + 1)
        state = mirror.informer.state
        assert isinstance(state, Listed | Watching)
        assert state.version >= int(last.metadata.resourceVersion)
        assert mirror.announced == {"a": ["1"]}


async def test_changes_during_an_outage_are_announced_once(
    mirror: Mirror, line: Line, user: Client, namespace: str
) -> None:
    await fill_abc(user, namespace)
    async with mirror.running():
        line.cut()
        await change_all(user, namespace)
        line.mend()
        await mirror.until(lambda: mirror.view == AFTER_ALL_CHANGES)
        assert mirror.announced == ALL_CHANGES_ANNOUNCED
        assert mirror.tally.of("informer_relists_total") == 0


async def test_a_restart_of_the_server_loses_nothing(
    mirror: Mirror, world: World, user: Client, namespace: str
) -> None:
    await fill_abc(user, namespace)
    async with mirror.running():
        await world.restart(False)
        await change_all(user, namespace)
        await mirror.until(lambda: mirror.view == AFTER_ALL_CHANGES)
        assert mirror.announced == ALL_CHANGES_ANNOUNCED


async def test_a_forgotten_version_leads_to_a_list_that_announces_only_differences(
    mirror: Mirror, world: World, line: Line, user: Client, namespace: str
) -> None:
    await fill_abc(user, namespace)
    async with mirror.running():
        line.cut()
        await change_all(user, namespace)
        await world.restart(True)
        line.mend()
        await mirror.until(lambda: mirror.view == AFTER_ALL_CHANGES)
        assert mirror.announced == ALL_CHANGES_ANNOUNCED
        await mirror.tally.until("informer_relists_total", 1)


async def fill_abc(user: Client, namespace: str) -> None:
    for name in ("a", "b", "c"):
        await make(user, namespace, name)


async def test_two_informers_under_many_writers_end_with_the_servers_objects(
    world: World, namespace: str
) -> None:
    mirrors = [Mirror(await world.connect(), namespace) for _ in range(2)]
    async with mirrors[0].running(), mirrors[1].running():
        async with asyncio.TaskGroup() as writers:
            for seed in range(5):
                client = Client(await world.connect())
                writers.create_task(write_at_random(client, namespace, Random(seed)))
        for mirror in mirrors:
            await mirror.informer.catch_up()
            assert mirror.view == await server_view(mirror.client, namespace)


async def write_at_random(client: Client, namespace: str, rng: Random) -> None:
    for step in range(30):
        key, value = Key(namespace, f"n{rng.randrange(6)}"), f"{step}"
        try:
            match rng.choice(["create", "patch", "patch", "delete"]):
                case "create":
                    await make(client, namespace, key.name, value)
                case "patch":
                    await client.patch(CONFIG_MAPS, key, changed_to(value))
                case _:
                    await client.delete(CONFIG_MAPS, key)
        except (AlreadyExistsError, NotFoundError):
            continue
