"""An elector against every answer, and two electors against each other."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest

from gpuruntime.kube.errors import LeadershipLostError, NotLeadingError
from gpuruntime.kube.lease import Elector
from gpuruntime.kube.transport import Response
from tests.rooms.kube.lease_world import Clock, LeaseServer, Stall, Stalled, Wire, elector
from tests.rooms.kube.things import failure

pytestmark = pytest.mark.looptime

LEASE_DURATION = 15.0
RENEW_DEADLINE = 10.0
RETRY_PERIOD = 2.0
TICK = 0.1


@pytest.fixture
def server() -> LeaseServer:
    return LeaseServer()


@pytest.fixture
def wire(server: LeaseServer) -> Wire:
    return Wire(server, Random(1))


@asynccontextmanager
async def running(one: Elector, stall: Stall | None = None) -> AsyncIterator[asyncio.Task[None]]:
    """End the elector by cancellation. Its own error is raised when the task is awaited."""

    async def run() -> None:
        await Stalled(one.run(), stall or Stall())

    task = asyncio.get_running_loop().create_task(run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            task.exception()


async def lost(task: asyncio.Task[None]) -> str:
    with pytest.raises(LeadershipLostError) as caught:
        await task
    return str(caught.value)


def time() -> float:
    return asyncio.get_running_loop().time()


async def test_a_missing_lease_is_created_as_kubernetes_writes_it(
    server: LeaseServer, wire: Wire
) -> None:
    one = elector(wire, "a")
    async with running(one):
        await one.leading.wait()
        assert one.is_leading
        one.fence()
        assert server.lease is not None
        spec = server.lease["spec"]
        assert spec["holderIdentity"] == "a"
        assert spec["leaseDurationSeconds"] == 15
        assert spec["leaseTransitions"] == 0
        assert spec["acquireTime"] == spec["renewTime"]
        assert len(spec["renewTime"]) == len("2026-01-01T00:00:00.000000Z")


async def test_a_renewal_changes_the_renew_time_and_nothing_else(
    server: LeaseServer, wire: Wire
) -> None:
    async with running(elector(wire, "a")):
        await asyncio.sleep(60)
        first, last = server.writes[0], server.writes[-1]
        assert {**first, "renewTime": ""} == {**last, "renewTime": ""}
        assert first["renewTime"] < last["renewTime"]
        assert 20 <= len(server.writes) <= 40


async def test_a_renewal_is_one_request(wire: Wire, server: LeaseServer) -> None:
    async with running(elector(wire, "a")):
        await asyncio.sleep(60)
        assert wire.sent == len(server.writes) + 1


@pytest.mark.parametrize(
    "holder",
    [{}, {"holderIdentity": ""}, {"holderIdentity": None}],
    ids=["absent", "empty", "null"],
)
async def test_a_lease_without_a_holder_is_taken_at_once(
    server: LeaseServer, wire: Wire, holder: dict[str, Any]
) -> None:
    server.put(leaseTransitions=4, **holder)
    one = elector(wire, "a")
    async with running(one):
        await asyncio.sleep(TICK)
        assert one.is_leading
        assert one.follows_clean_end
        assert server.writes[-1]["leaseTransitions"] == 5


async def test_a_foreign_lease_is_taken_only_after_its_duration_on_our_own_clock(
    server: LeaseServer, wire: Wire
) -> None:
    """The Lease's times are ancient, and no elector trusts them."""
    ancient = "2001-01-01T00:00:00.000000Z"
    server.put(
        holderIdentity="gone", leaseDurationSeconds=15, renewTime=ancient, acquireTime=ancient
    )
    one = elector(wire, "a")
    async with running(one):
        await asyncio.sleep(LEASE_DURATION - TICK)
        assert not one.leading.is_set()
        await asyncio.sleep(2 * RETRY_PERIOD)
        assert one.is_leading
        assert not one.follows_clean_end
        assert server.writes[-1]["leaseTransitions"] == 1


async def test_a_longer_duration_written_by_the_holder_is_respected(
    server: LeaseServer, wire: Wire
) -> None:
    server.put(holderIdentity="slow", leaseDurationSeconds=40)
    one = elector(wire, "a")
    async with running(one):
        await asyncio.sleep(40 - TICK)
        assert not one.leading.is_set()
        await asyncio.sleep(2 * RETRY_PERIOD)
        assert one.is_leading


async def test_every_new_version_of_a_foreign_lease_starts_its_duration_again(
    server: LeaseServer, wire: Wire
) -> None:
    one = elector(wire, "a")
    server.put(holderIdentity="b")
    async with running(one):
        for _ in range(10):
            await asyncio.sleep(LEASE_DURATION - 2 * RETRY_PERIOD)
            server.put(holderIdentity="b")
        assert not one.leading.is_set()


async def test_a_standby_that_saw_the_holder_waits_even_if_the_lease_is_deleted(
    server: LeaseServer, wire: Wire
) -> None:
    server.put(holderIdentity="b")
    one = elector(wire, "a")
    async with running(one):
        await asyncio.sleep(RETRY_PERIOD)
        server.lease = None
        await asyncio.sleep(LEASE_DURATION - RETRY_PERIOD - TICK)
        assert not one.leading.is_set()
        await asyncio.sleep(2 * RETRY_PERIOD)
        assert one.is_leading
        assert not one.follows_clean_end


async def test_a_lease_deleted_under_its_leader_is_created_again(
    server: LeaseServer, wire: Wire
) -> None:
    one = elector(wire, "a")
    async with running(one):
        await one.leading.wait()
        server.lease = None
        await asyncio.sleep(3 * RETRY_PERIOD)
        assert server.holder == "a"
        assert one.is_leading


async def test_another_clients_change_of_our_lease_does_not_end_the_leadership(
    server: LeaseServer, wire: Wire
) -> None:
    one = elector(wire, "a")
    async with running(one):
        await one.leading.wait()
        for _ in range(20):
            assert server.lease is not None
            server.put(**server.lease["spec"])
            await asyncio.sleep(5)
            assert one.is_leading


async def test_a_lease_taken_away_ends_the_leadership(server: LeaseServer, wire: Wire) -> None:
    one = elector(wire, "a")
    async with running(one) as task:
        await one.leading.wait()
        server.put(holderIdentity="b")
        assert "held by b" in await lost(task)
        assert not one.is_leading
        assert server.holder == "b"


FAILURES = [
    failure(403, "Forbidden", "no right"),
    failure(401, "Unauthorized", "who"),
    failure(409, "Conflict", "another"),
    failure(429, "TooManyRequests", "later"),
    failure(500, "InternalError", "etcdserver: request timed out"),
    failure(503, "ServiceUnavailable", "down"),
    Response(status=502, body=b"<html>"),
    Response(status=200, body=b"<html>"),
]


@pytest.mark.parametrize("refusal", FAILURES, ids=lambda response: str(response.status))
async def test_a_leader_that_cannot_renew_stops_at_the_deadline_whatever_the_answer(
    wire: Wire, refusal: Response
) -> None:
    one = elector(wire, "a")
    async with running(one) as task:
        await one.leading.wait()
        started = time()
        wire.refusal = refusal
        await lost(task)
        assert RENEW_DEADLINE - TICK <= time() - started <= RENEW_DEADLINE + TICK
        with pytest.raises(NotLeadingError, match="system/gpuruntime-manager"):
            one.fence()


@pytest.mark.parametrize("cut", ["refused", "silent", "deaf"])
async def test_a_leader_whose_transport_fails_does_not_keep_an_expired_lease(
    wire: Wire, cut: str
) -> None:
    """Electors that only read the Lease would be misled by this fault."""
    one = elector(wire, "a")
    async with running(one) as task:
        await one.leading.wait()
        started = time()
        wire.cut = cut
        await asyncio.sleep(RENEW_DEADLINE - RETRY_PERIOD)
        assert one.is_leading
        message = await lost(task)
        assert "not renewed in time" in message
        assert time() - started <= RENEW_DEADLINE + RETRY_PERIOD
        assert not one.is_leading


async def test_the_deadline_counts_from_the_start_of_a_renewal_and_not_from_its_answer(
    wire: Wire,
) -> None:
    wire.latency = (1.4, 1.4)
    one = elector(wire, "a")
    async with running(one) as task:
        await one.leading.wait()
        sent_at = time() - 2 * 1.4
        wire.cut = "refused"
        await asyncio.sleep(sent_at + RENEW_DEADLINE - TICK - time())
        one.fence()
        await asyncio.sleep(2 * TICK)
        with pytest.raises(NotLeadingError):
            one.fence()
        await lost(task)


async def test_a_leader_survives_failures_shorter_than_its_deadline(wire: Wire) -> None:
    one = elector(wire, "a")
    async with running(one):
        await one.leading.wait()
        for cut in ("refused", "silent", "deaf") * 5:
            wire.cut = cut
            await asyncio.sleep(RENEW_DEADLINE - 2 * RETRY_PERIOD)
            assert one.is_leading
            wire.cut = ""
            await asyncio.sleep(2 * RETRY_PERIOD)
            assert one.is_leading


@pytest.mark.parametrize("refusal", FAILURES, ids=lambda response: str(response.status))
async def test_a_standby_survives_every_failure(wire: Wire, refusal: Response) -> None:
    one = elector(wire, "a")
    wire.refusal = refusal
    async with running(one):
        await asyncio.sleep(60)
        assert 20 <= wire.sent <= 40
        wire.refusal = None
        await asyncio.sleep(2 * RETRY_PERIOD)
        assert one.is_leading


async def test_a_create_whose_answer_was_lost_is_recognised_as_ours(
    server: LeaseServer, wire: Wire
) -> None:
    one = elector(wire, "a")
    async with running(one):
        wire.cut = "deaf"
        server.lease = None
        await asyncio.sleep(1)
        wire.cut = ""
        await asyncio.sleep(LEASE_DURATION / 2)
        assert one.is_leading
        assert server.writes[-1]["leaseTransitions"] == 0


async def test_a_process_stalled_past_its_deadline_has_lost_and_writes_nothing(
    wire: Wire,
) -> None:
    stall = Stall()
    one = elector(wire, "a")
    async with running(one, stall) as task:
        await one.leading.wait()
        sent = wire.sent
        stall.begin(60)
        await asyncio.sleep(RENEW_DEADLINE + TICK)
        with pytest.raises(NotLeadingError):
            one.fence()
        assert "not renewed in time" in await lost(task)
        assert wire.sent == sent


async def test_an_answer_read_after_the_deadline_does_not_open_the_fence_again(
    server: LeaseServer, wire: Wire
) -> None:
    stall = Stall()
    one = elector(wire, "a")
    wire.latency = (0.5, 0.5)
    async with running(one, stall) as task:
        await one.leading.wait()
        server.written.clear()
        await server.written.wait()
        stall.begin(RENEW_DEADLINE)
        await lost(task)
        assert not one.is_leading


async def test_a_clock_that_jumps_as_after_a_suspend_shuts_the_fence_at_once(wire: Wire) -> None:
    clock = Clock()
    one = elector(wire, "a", clock=clock)
    async with running(one) as task:
        await one.leading.wait()
        clock.offset += 3600
        with pytest.raises(NotLeadingError):
            one.fence()
        await lost(task)


async def test_a_jump_of_the_wall_clock_changes_nothing(server: LeaseServer, wire: Wire) -> None:
    years = iter([2026, 1999, 2050] * 100)
    one = elector(wire, "a", wall=lambda: datetime(next(years), 1, 1, tzinfo=UTC))
    other = elector(Wire(server, Random(2)), "b", seed=2)
    async with running(one), running(other):
        await asyncio.sleep(120)
        assert one.is_leading
        assert not other.leading.is_set()


async def test_a_clean_stop_releases_the_lease_after_the_fence_is_shut(
    server: LeaseServer, wire: Wire
) -> None:
    one = elector(wire, "a")
    async with running(one):
        await one.leading.wait()
    assert not one.is_leading
    assert not one.leading.is_set()
    assert server.holder == ""
    assert server.writes[-1]["leaseTransitions"] == 0


async def test_a_stop_with_writes_in_flight_lets_the_lease_expire(
    server: LeaseServer, wire: Wire
) -> None:
    one = elector(wire, "a")
    one.gives_back = False
    async with running(one):
        await one.leading.wait()
    assert not one.is_leading
    assert server.holder == "a"


async def test_a_released_lease_is_taken_within_a_period(server: LeaseServer, wire: Wire) -> None:
    one, other = elector(wire, "a"), elector(Wire(server, Random(2)), "b", seed=2)
    async with running(other):
        async with running(one):
            await asyncio.sleep(RETRY_PERIOD * 2)
            leader, standby = (one, other) if one.is_leading else (other, one)
            assert not standby.is_leading
        await asyncio.sleep(RETRY_PERIOD * 1.2 + TICK)
        assert other.is_leading
    assert leader is not standby


async def test_a_stop_with_a_renewal_in_flight_still_releases(
    server: LeaseServer, wire: Wire
) -> None:
    one = elector(wire, "a")
    async with running(one):
        await one.leading.wait()
        server.written.clear()
        await server.written.wait()
    assert server.holder == ""


async def test_a_stop_releases_no_lease_of_another_holder(server: LeaseServer, wire: Wire) -> None:
    one = elector(wire, "a")
    async with running(one):
        await one.leading.wait()
        server.put(holderIdentity="b")
    assert server.holder == "b"


async def test_a_standby_that_never_wrote_stops_without_a_request(
    server: LeaseServer, wire: Wire
) -> None:
    server.put(holderIdentity="b")
    one = elector(wire, "a")
    async with running(one):
        await asyncio.sleep(TICK)
        sent = wire.sent
    assert wire.sent == sent


async def test_a_stop_against_a_dead_server_takes_no_longer_than_a_request(wire: Wire) -> None:
    one = elector(wire, "a")
    async with running(one):
        await one.leading.wait()
        wire.cut = "silent"
        started = time()
    assert time() - started <= RENEW_DEADLINE / 3 + TICK
