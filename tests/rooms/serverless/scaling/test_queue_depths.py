import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

from gpuruntime.bus.errors import UnavailableError
from gpuruntime.models.kinds.invocations import State
from gpuruntime.serverless.scaling.queue_depths import LOOKS, Backlog, DepthPoller, Depths
from tests.eventually import equals, eventually
from tests.rooms.bus.broker import FUNCTION, Broker, Bus, bus
from tests.rooms.bus.test_pull import in_hand, pulling
from tests.rooms.worker.invocations import accept, turn

# One more than the broker lists at a time.
MANY = 100_001


def depths_of(declared: Bus) -> Depths:
    return Depths(declared.jetstream, declared.names, declared.records)


async def send(declared: Bus, function: str = FUNCTION, count: int = 1) -> None:
    for _ in range(count):
        await declared.jetstream.publish(declared.names.invoke(function), b"{}")


class Told:
    """A poller of the broker, and its reports."""

    def __init__(self, made: Bus) -> None:
        self.functions: list[str] = []
        self.urgent: list[str] = []
        self.firsts = 0
        depths = Depths(made.jetstream, made.names, made.records)
        self.depth_poller = DepthPoller(depths, tell=self._note, report_all=self._count)

    def _note(self, function: str, *, is_urgent: bool) -> None:
        self.functions.append(function)
        if is_urgent:
            self.urgent.append(function)

    def _count(self) -> None:
        self.firsts += 1


@asynccontextmanager
async def reading(told: Told) -> AsyncIterator[DepthPoller]:
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(told.depth_poller.run())
        told.depth_poller.request_poll()
        await eventually(lambda: told.depth_poller.of(FUNCTION) is not None)
        yield told.depth_poller
        running.cancel()


async def test_one_reading_shows_every_function_that_has_invocations(declared: Bus) -> None:
    assert await depths_of(declared).read() == {}
    await send(declared, FUNCTION, 3)
    await send(declared, "other")
    assert await depths_of(declared).read() == {FUNCTION: 3, "other": 1}


async def test_dead_letters_of_all_functions_are_counted(declared: Bus) -> None:
    assert await depths_of(declared).dead_letters() == 0
    for function, letter in ((FUNCTION, "dl-1"), (FUNCTION, "dl-2"), ("other", "dl-1")):
        await declared.jetstream.publish(declared.names.dead_letter(function, letter), b"{}")
    assert await depths_of(declared).dead_letters() == 3


async def test_more_functions_than_one_answer_lists_are_all_found(declared: Bus) -> None:
    for number in range(MANY):
        await declared.connection.publish(declared.names.invoke(f"f{number}"), b"")
    await send(declared, FUNCTION)
    depths = await depths_of(declared).read()
    assert len(depths) == MANY + 1
    assert set(depths.values()) == {1}


async def test_running_invocations_count_until_they_are_acknowledged(declared: Bus) -> None:
    await send(declared, FUNCTION, 2)
    async with pulling(declared, room=1) as puller:
        while await in_hand(declared) != (1, 0):
            pass
        assert await depths_of(declared).read() == {FUNCTION: 2}
        assert (await depths_of(declared).backlog(FUNCTION, busy=1)).running == 1
        await puller.taken[0].ack()
        while await in_hand(declared) != (0, 0):
            pass
        assert await depths_of(declared).read() == {FUNCTION: 1}


async def test_the_oldest_waiting_invocation_is_the_first_undelivered_one(declared: Bus) -> None:
    await send(declared, FUNCTION)
    async with pulling(declared, room=1):
        while await in_hand(declared) != (1, 0):
            pass
        assert (await depths_of(declared).backlog(FUNCTION, busy=1)).oldest_at is None
        await send(declared, "other")
        before = datetime.now(UTC)
        await send(declared, FUNCTION)
        after = datetime.now(UTC)
        oldest_at = (await depths_of(declared).backlog(FUNCTION, busy=1)).oldest_at
        assert oldest_at is not None
        assert before <= oldest_at <= after


async def test_an_invocation_that_waits_for_a_retry_is_not_running(declared: Bus) -> None:
    before = datetime.now(UTC)
    await accept(declared, "tired")
    after = datetime.now(UTC)
    async with pulling(declared, room=1) as puller:
        await eventually(lambda: len(puller.taken), equals(1))
        await puller.taken[0].give_back(delay_seconds=60)
        puller.room = 0
        await accept(declared, "new")
        backlog = await depths_of(declared).backlog(FUNCTION, busy=0)
    assert backlog.running == 0
    assert backlog.oldest_at is not None
    assert before <= backlog.oldest_at <= after


async def test_a_running_invocation_is_seen_before_its_workers_heartbeat(declared: Bus) -> None:
    async with pulling(declared, room=3) as puller:
        for name in ("one", "two", "three"):
            await accept(declared, name)
        await eventually(lambda: len(puller.taken), equals(3))
        for name in ("one", "two"):
            await turn(declared, name, state=State.RUNNING)
        backlog = await depths_of(declared).backlog(FUNCTION, busy=1)
        third = puller.taken[2].stored_at
    assert backlog.running == 2
    assert backlog.oldest_at is not None
    assert abs(backlog.oldest_at - third) < timedelta(milliseconds=1)


async def test_no_more_invocations_run_than_were_delivered(declared: Bus) -> None:
    await accept(declared, "one")
    async with pulling(declared, room=1) as puller:
        await eventually(lambda: len(puller.taken), equals(1))
        assert (await depths_of(declared).backlog(FUNCTION, busy=1_000)).running == 1


async def test_reading_the_backlog_costs_little_however_many_invocations_run(
    declared: Bus,
) -> None:
    count = 3 * LOOKS
    for number in range(count):
        await accept(declared, f"n{number}")
    async with pulling(declared, room=count) as puller:
        await eventually(lambda: len(puller.taken), equals(count))
        for number in range(count):
            await turn(declared, f"n{number}", state=State.RUNNING)
        asked_for: list[str] = []
        async with declared.connection.listening(
            "$JS.API.>", lambda told: asked_for.append(told.subject)
        ):
            backlog = await depths_of(declared).backlog(FUNCTION, busy=0)
            await eventually(lambda: len(asked_for) > 2 * LOOKS)
    assert backlog.running == LOOKS
    assert len(asked_for) <= 2 * LOOKS + 2


async def test_without_a_consumer_the_first_invocation_waits(declared: Bus) -> None:
    depths = depths_of(declared)
    assert await depths.backlog("new", busy=0) == Backlog()
    await send(declared, "new")
    found = await depths.backlog("new", busy=0)
    assert found.running == 0
    assert found.oldest_at is not None


def test_a_wait_is_never_negative_if_two_clocks_differ() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert Backlog().oldest_wait_seconds(now) == 0
    assert Backlog(oldest_at=now - timedelta(seconds=3)).oldest_wait_seconds(now) == 3
    assert Backlog(oldest_at=now + timedelta(seconds=3)).oldest_wait_seconds(now) == 0


async def test_a_missing_answer_is_not_an_empty_queue(own: Broker) -> None:
    async with bus(own.url, "gone") as declared:
        own.kill()
        await declared.connection.session.ended.wait()
        with pytest.raises(UnavailableError):
            await depths_of(declared).read()


def test_a_wake_up_counts_as_one_invocation_until_a_later_reading(declared: Bus) -> None:
    readings = Told(declared).depth_poller
    assert readings.of(FUNCTION) is None
    readings.adopt({})
    readings.wake(FUNCTION)
    assert readings.of(FUNCTION) == 1
    readings.adopt({})
    assert readings.of(FUNCTION) == 1
    readings.adopt({}, woken={FUNCTION})
    assert readings.of(FUNCTION) == 0


def test_functions_with_work_before_or_now_are_reported(declared: Bus) -> None:
    told = Told(declared)
    told.depth_poller.adopt({"one": 1})
    told.depth_poller.adopt({"two": 1})
    assert sorted(told.functions) == ["one", "one", "two"]


def test_a_depth_that_starts_ends_or_more_than_doubles_is_urgent(declared: Bus) -> None:
    told = Told(declared)
    told.depth_poller.adopt({"stays": 5, "grows": 5, "ends": 5})
    told.urgent.clear()
    told.depth_poller.adopt({"stays": 6, "grows": 11, "comes": 1})
    assert sorted(told.urgent) == ["comes", "ends", "grows"]


def test_a_woken_function_is_reported_even_if_its_work_was_never_seen(declared: Bus) -> None:
    told = Told(declared)
    told.depth_poller.adopt({})
    told.depth_poller.adopt({}, woken={"quick"})
    assert told.functions == ["quick"]


def test_the_first_reading_after_none_is_reported_to_all(declared: Bus) -> None:
    told = Told(declared)
    told.depth_poller.adopt({})
    told.depth_poller.adopt({})
    assert told.firsts == 1
    told.depth_poller.forget()
    assert told.depth_poller.of(FUNCTION) is None
    told.depth_poller.adopt({})
    assert told.firsts == 2


async def test_a_requested_reading_happens_at_once(declared: Bus) -> None:
    async with reading(Told(declared)) as readings:
        await send(declared)
        readings.request_poll()
        async with asyncio.timeout(1):
            await eventually(lambda: readings.of(FUNCTION), equals(1))


async def test_depths_are_read_every_two_seconds_while_there_is_work(declared: Bus) -> None:
    await send(declared)
    async with reading(Told(declared)) as readings:
        await send(declared)
        async with asyncio.timeout(4):
            await eventually(lambda: readings.of(FUNCTION), equals(2))


async def test_depths_are_unknown_until_the_broker_is_back(own: Broker) -> None:
    async with bus(own.url, "readings") as made, reading(Told(made)) as readings:
        own.kill()
        await made.connection.session.ended.wait()
        readings.request_poll()
        await eventually(lambda: readings.of(FUNCTION) is None)
        own.start()
        await eventually(lambda: readings.of(FUNCTION), equals(0))
