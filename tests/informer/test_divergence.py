import asyncio
from collections.abc import Callable

import pytest

from gpuruntime.informer.divergence import CHECK_SECONDS
from gpuruntime.models.metadata import Key
from tests.informer.fronts import DirectTransport
from tests.informer.harness import Followed, running
from tests.informer.model import ModelServer, Script, refuse
from tests.kube.things import KEY

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


async def test_a_store_that_is_right_is_checked_about_hourly_by_one_list_of_metadata(
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
async def test_a_change_that_no_event_told_is_counted_and_healed(
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


async def test_events_under_way_during_the_check_are_no_divergence(
    server: ModelServer, followed: Followed
) -> None:
    """The stream lags by half a minute behind the lists, while objects come, change and go."""
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


async def test_the_check_passes_over_what_this_process_has_just_written(
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
async def test_a_check_that_fails_alarms_nobody_and_the_next_one_comes(
    server: ModelServer, followed: Followed, script: Script
) -> None:
    server.script("metadata", script)
    async with running(followed.informer):
        await asyncio.sleep(4 * CHECK_SECONDS)
        assert len(server.called("metadata")) >= 2
        assert DIVERGED not in followed.meter.sums


async def test_nothing_is_judged_while_no_window_stays_open(
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
