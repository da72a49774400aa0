import asyncio
import gc
from itertools import pairwise
from random import Random

import pytest

from gpuruntime.informer.informer import Informer
from gpuruntime.informer.reflector import ANNOUNCEMENTS_WITHOUT_PAUSE, EVENTS_WITHOUT_PAUSE
from gpuruntime.kube.client import Client
from gpuruntime.meter import NullMeter
from gpuruntime.models.kubernetes.metadata import Key
from tests.rooms.informer.fronts import DirectTransport
from tests.rooms.informer.harness import Followed, running
from tests.rooms.informer.model import (
    Answer,
    ModelServer,
    Query,
    bookmark,
    event,
    listing,
    refuse,
    say_then_go_on,
    sorted_objects,
)
from tests.rooms.kube.things import KEY, THINGS, Thing, thing

pytestmark = pytest.mark.looptime


@pytest.fixture
async def server() -> ModelServer:
    server = ModelServer()
    server.put("anvil", size=1)
    server.put("bellows", size=2)
    return server


@pytest.fixture
def followed(server: ModelServer) -> Followed:
    return Followed(DirectTransport(server))


def key(name: str) -> Key:
    return Key(KEY.namespace, name)


async def test_handlers_receive_the_backlog_before_synced_is_set_and_changes_after_it(
    server: ModelServer, followed: Followed
) -> None:
    heard: list[tuple[str, bool]] = []
    followed.informer.add_handler(
        lambda found, _old, _new: heard.append((found.name, followed.informer.synced.is_set()))
    )
    async with running(followed.informer):
        server.put("chisel")
        await asyncio.sleep(1)
    assert heard == [("anvil", False), ("bellows", False), ("chisel", True)]


async def test_a_handler_finds_the_store_as_announced(
    server: ModelServer, followed: Followed
) -> None:
    def check(found: Key, _old: Thing | None, new: Thing | None) -> None:
        assert followed.informer.store.get(found) is new

    followed.informer.add_handler(check)
    async with running(followed.informer):
        server.put("anvil", size=3)
        server.delete("bellows")
        await asyncio.sleep(1)
        assert len(followed.heard.changes) == 4


async def test_a_handler_receives_the_previous_object(
    server: ModelServer, followed: Followed
) -> None:
    async with running(followed.informer):
        server.put("anvil", size=3)
        server.delete("anvil")
        await asyncio.sleep(1)
    sizes = [
        (old and old.spec.size, new and new.spec.size)
        for name, old, new in followed.heard.changes
        if name == "anvil"
    ]
    assert sizes == [(None, 1), (1, 3), (3, None)]


async def test_readers_find_objects_by_index_as_soon_as_they_change(
    server: ModelServer, followed: Followed
) -> None:
    async with running(followed.informer):
        server.put("anvil", size=2)
        await asyncio.sleep(1)
        found = followed.informer.store.by_index("size", 2)
        assert sorted(each.metadata.name for each in found) == ["anvil", "bellows"]


async def test_a_large_list_is_read_in_pages_of_one_version(
    server: ModelServer, followed: Followed
) -> None:
    for number in range(1_100):
        server.put(f"nail-{number:04}")
    async with running(followed.informer):
        calls = server.called("list")
        assert [call.query["limit"] for call in calls] == ["500"] * 3
        assert all(call.version == "" for call in calls)
        assert followed.view() == server.truth()


async def test_other_tasks_run_while_many_objects_are_announced(
    server: ModelServer, followed: Followed
) -> None:
    for number in range(3 * ANNOUNCEMENTS_WITHOUT_PAUSE):
        server.put(f"nail-{number:04}")
    steps = await announced_per_turn(followed, len(server.objects))
    assert max(steps) <= ANNOUNCEMENTS_WITHOUT_PAUSE


async def test_other_tasks_run_while_many_events_come_at_once(
    server: ModelServer, followed: Followed
) -> None:
    count = 5 * EVENTS_WITHOUT_PAUSE
    lines = [event("ADDED", thing(f"nail-{n:04}", version=str(500 + n))) for n in range(count)]
    server.script("watch", say_then_go_on(b"".join(lines)))
    steps = await announced_per_turn(followed, len(server.objects) + count)
    assert max(steps) <= EVENTS_WITHOUT_PAUSE


async def announced_per_turn(followed: Followed, count: int) -> list[int]:
    """Return how many changes were announced between two passes of the loop."""
    turns: list[int] = []

    async def take_turns() -> None:
        while len(followed.heard.changes) < count:
            turns.append(len(followed.heard.changes))
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(take_turns())
        async with running(followed.informer):
            await asyncio.sleep(1)
    return [after - before for before, after in pairwise([*turns, len(followed.heard.changes)])]


async def test_the_garbage_collector_is_off_while_a_list_is_read(
    server: ModelServer, followed: Followed
) -> None:
    seen: list[bool] = []

    def note(server: ModelServer, query: Query) -> Answer:
        seen.append(gc.isenabled())
        return server.page(query)

    server.script("list", refuse(403, "Forbidden"), note)
    async with running(followed.informer):
        assert seen == [False]
        assert gc.isenabled()


async def test_an_own_write_is_visible_at_once_and_its_event_is_not_announced_again(
    server: ModelServer, followed: Followed
) -> None:
    server.lag_seconds = 5
    async with running(followed.informer):
        assert followed.write(server.put("anvil", size=3))
        assert followed.view() == server.truth()
        await asyncio.sleep(10)
        assert followed.heard.names.count("anvil") == 2


async def test_an_answer_older_than_a_bookmark_does_not_revive_a_deleted_object(
    server: ModelServer, followed: Followed
) -> None:
    server.script("watch", say_then_go_on(bookmark(500)))
    async with running(followed.informer):
        await asyncio.sleep(1)
        assert not followed.write(thing("chisel", version="400"))
        assert key("chisel") not in followed.informer.store


async def test_writes_and_deletions_during_a_list_are_in_the_store_after_it(
    server: ModelServer, followed: Followed
) -> None:
    """The server takes the snapshot, then objects change, and only then it answers."""

    def slow_list(server: ModelServer, _query: Query) -> Answer:
        snapshot, version = sorted_objects(server.objects), server.version
        followed.write(server.put("anvil", size=7))
        followed.write(server.put("chisel", size=8))
        followed.write(server.put("drill", size=9))
        server.delete("drill")
        server.delete("bellows")
        return listing(snapshot, version=version)

    async with running(followed.informer):
        server.script("list", slow_list)
        server.script("watch", refuse(410, "Expired"))
        server.compact()
        await asyncio.sleep(700)
        assert len(server.called("list")) == 2
        assert followed.view() == server.truth()
        assert set(followed.heard.last) == {key("anvil"), key("chisel")}


async def test_a_stale_list_restores_neither_deleted_objects_nor_older_versions(
    server: ModelServer, followed: Followed
) -> None:
    stale, version = sorted_objects(server.objects), server.version
    async with running(followed.informer):
        server.put("anvil", size=3)
        server.delete("bellows")
        await asyncio.sleep(1)
        server.script("watch", refuse(410, "Expired"))
        server.script("list", lambda *_: listing(stale, version=version))
        server.compact()
        await asyncio.sleep(700)

        assert followed.view() == server.truth()
        assert followed.heard.names == ["anvil", "bellows", "anvil", "bellows"]


async def test_a_restored_server_is_followed_again(server: ModelServer) -> None:
    """The history goes on at a lower version, and the watch from the higher one is refused."""
    transport = DirectTransport(server)
    followed = Followed(transport)
    restored = ModelServer()
    restored.put("chisel")
    restored.script("watch", refuse(410, "Expired"))
    async with running(followed.informer):
        transport.server = restored
        await asyncio.sleep(1_000)
        assert followed.view() == restored.truth()


@pytest.mark.parametrize("has_bookmarks", [True, False])
async def test_a_restored_server_that_stays_silent_is_followed_again(
    server: ModelServer, has_bookmarks: bool
) -> None:
    """The server accepts the watch from the higher version, and waits until it gets there."""
    for _ in range(50):
        server.put("anvil")
    transport = DirectTransport(server)
    followed = Followed(transport)
    restored = ModelServer()
    restored.has_bookmarks = has_bookmarks
    restored.put("chisel")
    async with running(followed.informer):
        transport.server = restored
        server.script("watch", *[refuse(500, "InternalError")] * 10)
        await asyncio.sleep(1_000)
        assert followed.view() == restored.truth()


async def test_a_handler_that_raises_ends_the_informer(followed: Followed) -> None:
    def fail(*_: object) -> None:
        raise LookupError("a fault of ours")

    followed.informer.add_handler(fail)
    with pytest.raises(ExceptionGroup) as caught:
        await followed.informer.run()
    assert caught.group_contains(LookupError)


async def test_repeated_failures_are_counted_and_shown(
    server: ModelServer, followed: Followed
) -> None:
    server.script("list", *[refuse(403, "Forbidden")] * 100)
    async with running(followed.informer):
        failures = followed.meter.sums["informer_failures_total ForbiddenError"]
        assert failures == len(server.called("list"))
        assert followed.meter.gauges["informer_failures_in_a_row"] == failures


async def test_two_mirrors_of_one_kind_have_separate_metrics() -> None:
    class LastGauges(NullMeter):
        def __init__(self) -> None:
            self.failures: dict[str, float] = {}

        def gauge(self, name: str, value: float, /, **labels: str) -> None:
            if name == "informer_failures_in_a_row":
                self.failures[labels["mirror"]] = value

    well, ill, meter = ModelServer(), ModelServer(), LastGauges()
    ill.script("list", *[refuse(403, "Forbidden")] * 100)
    mirrors = {"here": well, "there": ill, "": well}
    informers = [
        Informer(Client(DirectTransport(server)), THINGS, rng=Random(7), mirror=name, meter=meter)
        for name, server in mirrors.items()
    ]
    async with running(*informers):
        assert meter.failures == {"here": 0, "there": len(ill.called("list")), "things": 0}
