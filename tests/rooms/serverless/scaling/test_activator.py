"""The activator on a real broker with real workers: it wakes and drains them and loses nothing."""

import asyncio

from gpuruntime.bus.session import Message
from gpuruntime.models.kinds.invocations import FailureClass, State
from tests.eventually import equals, eventually
from tests.rooms.bus.broker import FUNCTION, Broker, Bus, bus
from tests.rooms.serverless.fleet import Fleet, fleet
from tests.rooms.worker.invocations import accept
from tests.rooms.worker.workers import ended, left_in_stream, until_empty


async def wake(made: Bus, function: str = FUNCTION) -> None:
    await made.connection.publish(made.names.wake(function), b"")


async def hears(made: Fleet) -> None:
    """Wait until it has a session and has read the depths once."""
    await eventually(lambda: made.scaled.activator.depth_poller.of(FUNCTION) is not None)


async def until_no_consumer(made: Bus) -> None:
    verb = f"CONSUMER.NAMES.{made.names.invocations}"
    await eventually(lambda: made.jetstream.call(verb), lambda seen: not seen["total"])


async def test_a_wake_up_starts_the_first_worker_long_before_the_next_poll(declared: Bus) -> None:
    async with fleet(declared) as made:
        made.scaled.declare()
        await hears(made)
        await accept(declared, "one")
        await wake(declared)
        record = await ended(declared, "one", within_seconds=5)
        assert record.state is State.SUCCEEDED
        assert record.workerName == "echo-w-1"


async def test_a_new_leader_finds_what_was_queued_without_a_leader(declared: Bus) -> None:
    for number in range(3):
        await accept(declared, f"i{number}")
    async with fleet(declared) as made:
        made.scaled.declare(maxWorkers=3)
        for number in range(3):
            record = await ended(declared, f"i{number}", within_seconds=8)
            assert record.state is State.SUCCEEDED


async def test_idle_workers_drain_by_order_and_are_deleted(declared: Bus) -> None:
    async with fleet(declared) as made:
        made.scaled.declare(idleTimeoutSeconds=0)
        await hears(made)
        await accept(declared, "one")
        await wake(declared)
        await ended(declared, "one")
        await eventually(lambda: made.scaled.workers, equals([]))
        assert made.node.started == ["echo-w-1"]


async def test_a_draining_worker_ends_its_calls(declared: Bus) -> None:
    async with fleet(declared) as made:
        made.ledger.gate.clear()
        made.scaled.declare()
        await hears(made)
        await accept(declared, "long")
        await wake(declared)
        await eventually(lambda: made.ledger.starts)
        made.scaled.change(suspended=True)
        await eventually(lambda: made.scaled.draining, equals(["echo-w-1"]))
        await accept(declared, "waits")
        await asyncio.sleep(2)
        assert made.scaled.workers == ["echo-w-1"]
        made.ledger.gate.set()
        record = await ended(declared, "long")
        assert (record.state, record.attempt) == (State.SUCCEEDED, 1)
        await eventually(lambda: made.scaled.workers, equals([]))
        assert made.ledger.started == [("long", 1)]
        made.scaled.change(suspended=False)
        assert (await ended(declared, "waits")).state is State.SUCCEEDED


async def test_a_drain_order_is_repeated_until_the_worker_is_deleted(declared: Bus) -> None:
    orders: list[Message] = []
    control = declared.names.control(FUNCTION, "echo-w-1")
    async with declared.connection.listening(control, orders.append), fleet(declared) as made:
        made.ledger.gate.clear()
        made.scaled.declare()
        await hears(made)
        await accept(declared, "long")
        await wake(declared)
        await eventually(lambda: made.ledger.starts)
        made.scaled.change(suspended=True)
        await eventually(lambda: len(orders) >= 3)
        assert made.scaled.workers == ["echo-w-1"]
        made.ledger.gate.set()
        await ended(declared, "long")


async def test_a_burst_gets_the_most_workers_allowed_and_each_call_runs_once(
    declared: Bus,
) -> None:
    async with fleet(declared) as made:
        made.ledger.gate.clear()
        made.scaled.declare(maxWorkers=3, concurrency=2)
        await hears(made)
        for number in range(12):
            await accept(declared, f"i{number}")
            await wake(declared)
        await eventually(lambda: len(made.ledger.starts), equals(6))
        assert made.scaled.workers == ["echo-w-1", "echo-w-2", "echo-w-3"]
        made.ledger.gate.set()
        await until_empty(declared)
        assert len(made.ledger.started) == 12


async def test_a_deleted_consumer_is_recreated_and_the_work_continues(declared: Bus) -> None:
    async with fleet(declared) as made:
        made.scaled.declare(minAvailableCount=1)
        await hears(made)
        await eventually(lambda: len(made.node.started), equals(1))
        stream = declared.names.invocations
        await declared.jetstream.call(f"CONSUMER.DELETE.{stream}.{FUNCTION}")
        await accept(declared, "one")
        record = await ended(declared, "one", within_seconds=9)
        assert record.state is State.SUCCEEDED


async def test_invocations_of_a_deleted_function_end_and_its_consumer_is_deleted(
    declared: Bus,
) -> None:
    async with fleet(declared) as made:
        made.scaled.declare(is_suspended=True)
        await hears(made)
        for number in range(3):
            await accept(declared, f"i{number}")
        made.scaled.delete(FUNCTION)
        for number in range(3):
            record = await ended(declared, f"i{number}", within_seconds=9)
            assert record.state is State.FAILED
            assert record.failureClass is FailureClass.NO_WORKER_TEMPLATE
        assert await left_in_stream(declared) == 0
        await until_no_consumer(declared)


async def test_a_function_that_is_declared_again_at_once_keeps_its_invocations(
    declared: Bus,
) -> None:
    async with fleet(declared) as made:
        made.scaled.declare(is_suspended=True)
        await hears(made)
        await accept(declared, "one")
        made.scaled.delete(FUNCTION)
        await asyncio.sleep(0.2)
        made.scaled.declare()
        assert (await ended(declared, "one")).state is State.SUCCEEDED


async def test_a_function_that_is_not_cached_yet_keeps_its_invocations(declared: Bus) -> None:
    async with fleet(declared) as made:
        await hears(made)
        made.scaled.transport.hold_watches()
        made.scaled.declare()
        await accept(declared, "waits")
        await wake(declared)
        await asyncio.sleep(2)
        waiting = await declared.records.read(FUNCTION, "waits")
        assert waiting is not None
        assert waiting.record.state is State.QUEUED
        made.scaled.transport.release_watches()
        assert (await ended(declared, "waits")).state is State.SUCCEEDED


async def test_a_running_invocation_of_a_deleted_function_is_left_to_its_worker(
    declared: Bus,
) -> None:
    async with fleet(declared) as made:
        made.ledger.gate.clear()
        made.scaled.declare(maxWorkers=1)
        await hears(made)
        await accept(declared, "runs")
        await wake(declared)
        await eventually(lambda: made.ledger.starts)
        await accept(declared, "waits")
        made.scaled.delete(FUNCTION)
        waits = await ended(declared, "waits", within_seconds=9)
        assert waits.failureClass is FailureClass.NO_WORKER_TEMPLATE
        made.ledger.gate.set()
        assert (await ended(declared, "runs")).state is State.SUCCEEDED


async def test_functions_continue_after_an_outage_of_the_broker(own: Broker) -> None:
    async with bus(own.url, "away") as declared, fleet(declared) as made:
        made.scaled.declare(minAvailableCount=1)
        await eventually(lambda: len(made.node.started), equals(1))
        await hears(made)
        own.kill()
        await eventually(lambda: made.scaled.activator.depth_poller.of(FUNCTION) is None)
        own.start()
        await declared.connection.connected()
        await accept(declared, "one")
        assert (await ended(declared, "one")).state is State.SUCCEEDED
        assert made.scaled.workers == ["echo-w-1"]


async def test_the_status_reports_the_wait_of_the_oldest_invocation(declared: Bus) -> None:
    await accept(declared, "one")
    await asyncio.sleep(1.1)
    async with fleet(declared, stock=0) as made:
        made.scaled.declare()
        await eventually(lambda: made.scaled.status().get("depth"), equals(1))
        assert made.scaled.status()["oldestWaitSeconds"] >= 1
        assert made.scaled.status()["reason"] == "insufficient_capacity"
        activator = made.scaled.activator
        assert activator.function_depths() == {(FUNCTION,): 1}
        [(names, seconds)] = activator.function_waits().items()
        assert names == (FUNCTION,)
        assert seconds >= 1
