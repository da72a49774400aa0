import asyncio
from collections.abc import Callable

import pytest

from gpuruntime.informer.consistency_check import (
    CHECK_SECONDS,
    Difference,
    Identity,
    Snapshot,
    differences,
)
from gpuruntime.informer.store import Store, Tables
from gpuruntime.models.kubernetes.metadata import Key, ObjectMeta
from tests.rooms.informer.fronts import DirectTransport
from tests.rooms.informer.harness import Followed, running
from tests.rooms.informer.model import ModelServer, Script, refuse
from tests.rooms.kube.things import KEY, Thing

pytestmark = pytest.mark.looptime

DIVERGED = "informer_divergence_total"


@pytest.fixture
async def server() -> ModelServer:
    server = ModelServer()
    for name in ("anvil", "bellows", "chisel"):
        server.put(name)
    return server


@pytest.fixture
def followed(server: ModelServer) -> Followed:
    return Followed(DirectTransport(server), is_checked=True)


def held(**versions: int) -> Store[Thing]:
    tables: Tables[Thing] = Tables({})
    for name, version in versions.items():
        metadata = ObjectMeta(namespace="lab", name=name, resourceVersion=str(version))
        tables.put(metadata.key, Thing(metadata=metadata))
    return Store(tables)


def snapshot(version: int, **versions: int) -> Snapshot:
    objects = {
        Key("lab", name): Identity(uid=f"uid-{name}", version=each)
        for name, each in versions.items()
    }
    return Snapshot(version=version, objects=objects)


async def test_a_store_that_is_behind_differs() -> None:
    found = await differences(snapshot(50, older=20, lost=30), held(older=10, surplus=50))
    assert found == {
        Difference(Key("lab", "older"), "10", "uid-older"),
        Difference(Key("lab", "lost"), "", "uid-lost"),
        Difference(Key("lab", "surplus"), "50", ""),
    }


async def test_a_store_that_is_ahead_of_the_snapshot_does_not_differ() -> None:
    ahead = held(same=20, newer=60, created=51)
    assert not await differences(snapshot(50, same=20, newer=30), ahead)


async def test_a_correct_store_costs_about_one_metadata_list_an_hour(
    server: ModelServer, followed: Followed
) -> None:
    async with running(followed.informer):
        await asyncio.sleep(24 * CHECK_SECONDS)

        checks = [call.at for call in server.called("metadata")]
        assert 18 <= len(checks) <= 32
        assert len({round(moment % CHECK_SECONDS) for moment in checks}) > len(checks) / 2
        assert len(server.called("list")) == 1
        assert DIVERGED not in followed.meter.sums


def lose_deletion(server: ModelServer) -> None:
    server.delete("anvil")
    server.history.pop()


def lose_change(server: ModelServer) -> None:
    server.put("anvil", size=2)
    server.history.pop()


def lose_creation(server: ModelServer) -> None:
    server.put("drill")
    server.history.pop()


@pytest.mark.parametrize("lose", [lose_deletion, lose_change, lose_creation])
async def test_a_change_without_an_event_is_counted_and_repaired(
    server: ModelServer,
    followed: Followed,
    lose: Callable[[ModelServer], None],
) -> None:
    async with running(followed.informer):
        lose(server)
        await asyncio.sleep(2 * CHECK_SECONDS)

        assert followed.meter.sums[DIVERGED] == 1
        assert followed.meter.sums["informer_relists_total"] == 1
        assert followed.view() == server.truth()
        assert set(followed.heard.last) == set(server.truth())


async def test_events_in_flight_during_the_check_are_no_divergence(
    server: ModelServer, followed: Followed
) -> None:
    """The stream is half a minute behind the lists, while objects come, change and go."""
    server.lag_seconds = 30.0
    async with running(followed.informer):
        moment = 0
        while len(server.called("metadata")) < 12:
            moment += 1
            server.put("anvil", size=moment)
            server.put(f"drill-{moment}")
            if moment > 3:
                server.delete(f"drill-{moment - 3}")
            await asyncio.sleep(17)
        assert DIVERGED not in followed.meter.sums
        assert "informer_relists_total" not in followed.meter.sums


async def test_the_check_ignores_recent_writes_of_this_process(
    server: ModelServer, followed: Followed
) -> None:
    server.lag_seconds = 50.0
    async with running(followed.informer):
        checks = 0
        while checks < 5:
            if len(server.called("metadata")) > checks:
                checks = len(server.called("metadata"))
            written = server.put("anvil", size=checks)
            await asyncio.sleep(10)
            followed.write(written)
        assert DIVERGED not in followed.meter.sums


@pytest.mark.parametrize(
    "script", [refuse(403, "Forbidden"), refuse(500, "InternalError"), refuse(410, "Expired")]
)
async def test_a_failed_check_is_no_error_and_the_next_one_runs(
    server: ModelServer, followed: Followed, script: Script
) -> None:
    server.script("metadata", script)
    async with running(followed.informer):
        await asyncio.sleep(4 * CHECK_SECONDS)
        assert len(server.called("metadata")) >= 2
        assert DIVERGED not in followed.meter.sums


async def test_no_divergence_is_reported_while_no_window_stays_open(
    server: ModelServer, followed: Followed
) -> None:
    async with running(followed.informer):
        lose_change(server)
        server.script("watch", *[refuse(429, "TooManyRequests")] * 2_000)
        await asyncio.sleep(5 * CHECK_SECONDS)
        assert DIVERGED not in followed.meter.sums

        server.scripts["watch"].clear()
        await asyncio.sleep(2 * CHECK_SECONDS)
        assert followed.meter.sums[DIVERGED] == 1
        assert followed.informer.store.get(Key(KEY.namespace, "anvil")) is not None
        assert followed.view() == server.truth()


async def test_catching_up_ends_once_the_store_has_the_servers_objects(
    server: ModelServer, followed: Followed
) -> None:
    """The stream lags, so only the list shows that an object is missing."""
    server.lag_seconds = 30.0
    async with running(followed.informer):
        server.put("drill")
        await followed.informer.catch_up()

        assert followed.view() == server.truth()


async def test_catching_up_does_not_end_with_half_of_the_objects(
    server: ModelServer, followed: Followed
) -> None:
    server.lag_seconds = 30.0
    async with running(followed.informer):
        server.put("anvil", size=2)
        await asyncio.sleep(10)
        server.put("anvil", size=3)
        server.put("drill")
        server.delete("drill")
        await followed.informer.catch_up()

        assert followed.view() == server.truth()


async def test_catching_up_ends_even_if_an_event_was_lost(
    server: ModelServer, followed: Followed
) -> None:
    async with running(followed.informer):
        lose_change(server)
        async with asyncio.timeout(90):
            await followed.informer.catch_up()


async def test_catching_up_backs_off_from_a_failing_server(
    server: ModelServer, followed: Followed
) -> None:
    server.script("metadata", *[refuse(500, "InternalError")] * 1_000)
    async with running(followed.informer):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(600):
                await followed.informer.catch_up()
        assert len(server.called("metadata")) < 0.25 * 600


async def test_catching_up_returns_at_once_if_nothing_is_missing(
    server: ModelServer, followed: Followed
) -> None:
    async with running(followed.informer):
        server.version += 50  # writes to other kinds raise the version
        started = asyncio.get_running_loop().time()
        await followed.informer.catch_up()

        assert asyncio.get_running_loop().time() - started < 1.0
