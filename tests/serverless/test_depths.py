from datetime import UTC, datetime, timedelta

import pytest

from gpuruntime.bus.errors import UnavailableError
from gpuruntime.serverless.depths import Backlog, Depths
from tests.bus.broker import FUNCTION, Broker, Bus, bus
from tests.bus.test_pull import in_hand, pulling

# One more than the broker tells at a time.
MANY = 100_001


def depths_of(declared: Bus) -> Depths:
    return Depths(declared.jetstream, declared.names)


async def send(declared: Bus, function: str, count: int = 1) -> None:
    for _ in range(count):
        await declared.jetstream.publish(declared.names.invoke(function), b"{}")


async def test_every_function_that_has_invocations_is_told_at_once(declared: Bus) -> None:
    assert await depths_of(declared).read() == {}
    await send(declared, FUNCTION, 3)
    await send(declared, "other")
    assert await depths_of(declared).read() == {FUNCTION: 3, "other": 1}


async def test_more_functions_than_one_answer_holds_are_all_told(declared: Bus) -> None:
    for number in range(MANY):
        await declared.connection.publish(declared.names.invoke(f"f{number}"), b"")
    await send(declared, FUNCTION)
    depths = await depths_of(declared).read()
    assert len(depths) == MANY + 1
    assert set(depths.values()) == {1}


async def test_invocations_in_hand_count_until_they_are_answered(declared: Bus) -> None:
    await send(declared, FUNCTION, 2)
    async with pulling(declared, room=1) as puller:
        while await in_hand(declared) != (1, 0):
            pass
        assert await depths_of(declared).read() == {FUNCTION: 2}
        assert (await depths_of(declared).backlog(FUNCTION)).in_hand == 1
        await puller.taken[0].ack()
        while await in_hand(declared) != (0, 0):
            pass
        assert await depths_of(declared).read() == {FUNCTION: 1}


async def test_the_oldest_is_the_first_that_no_worker_was_given(declared: Bus) -> None:
    await send(declared, FUNCTION)
    async with pulling(declared, room=1):
        while await in_hand(declared) != (1, 0):
            pass
        assert (await depths_of(declared).backlog(FUNCTION)).oldest_at is None
        await send(declared, "other")
        before = datetime.now(UTC)
        await send(declared, FUNCTION)
        after = datetime.now(UTC)
        oldest_at = (await depths_of(declared).backlog(FUNCTION)).oldest_at
        assert oldest_at is not None
        assert before <= oldest_at <= after


async def test_without_a_consumer_the_first_invocation_waits(declared: Bus) -> None:
    depths = depths_of(declared)
    assert await depths.backlog("new") == Backlog()
    await send(declared, "new")
    found = await depths.backlog("new")
    assert found.in_hand == 0
    assert found.oldest_at is not None


def test_a_wait_is_never_negative_by_the_clocks_of_two_machines() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert Backlog().oldest_wait_seconds(now) == 0
    assert Backlog(oldest_at=now - timedelta(seconds=3)).oldest_wait_seconds(now) == 3
    assert Backlog(oldest_at=now + timedelta(seconds=3)).oldest_wait_seconds(now) == 0


async def test_no_answer_is_not_taken_for_no_invocations(own: Broker) -> None:
    async with bus(own.url, "gone") as declared:
        own.kill()
        await declared.connection.session.ended.wait()
        with pytest.raises(UnavailableError):
            await depths_of(declared).read()
