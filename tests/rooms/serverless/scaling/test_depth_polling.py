import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gpuruntime.serverless.scaling.depth_polling import DepthPoller
from gpuruntime.serverless.scaling.queue_depths import Depths
from tests.rooms.bus.broker import FUNCTION, Broker, Bus, bus, eventually


class Told:
    """Readings of a broker, and whom they told."""

    def __init__(self, made: Bus) -> None:
        self.functions: list[str] = []
        self.urgent: list[str] = []
        self.firsts = 0
        depths = Depths(made.jetstream, made.names, made.records)
        self.readings = DepthPoller(depths, tell=self._note, tell_all=self._count)

    def _note(self, function: str, *, is_urgent: bool) -> None:
        self.functions.append(function)
        if is_urgent:
            self.urgent.append(function)

    def _count(self) -> None:
        self.firsts += 1


@asynccontextmanager
async def reading(told: Told) -> AsyncIterator[DepthPoller]:
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(told.readings.run())
        told.readings.look()
        await eventually(lambda: told.readings.of(FUNCTION) is not None)
        yield told.readings
        running.cancel()


async def send(made: Bus) -> None:
    await made.jetstream.publish(made.names.invoke(FUNCTION), b"{}")


def test_a_wake_counts_as_one_invocation_until_a_later_reading(declared: Bus) -> None:
    readings = Told(declared).readings
    assert readings.of(FUNCTION) is None
    readings.adopt({})
    readings.wake(FUNCTION)
    assert readings.of(FUNCTION) == 1
    readings.adopt({})
    assert readings.of(FUNCTION) == 1
    readings.adopt({}, woken={FUNCTION})
    assert readings.of(FUNCTION) == 0


def test_those_that_have_work_or_had_some_are_told(declared: Bus) -> None:
    told = Told(declared)
    told.readings.adopt({"one": 1})
    told.readings.adopt({"two": 1})
    assert sorted(told.functions) == ["one", "one", "two"]


def test_what_comes_goes_or_grows_by_far_is_urgent(declared: Bus) -> None:
    told = Told(declared)
    told.readings.adopt({"stays": 5, "grows": 5, "ends": 5})
    told.urgent.clear()
    told.readings.adopt({"stays": 6, "grows": 11, "comes": 1})
    assert sorted(told.urgent) == ["comes", "ends", "grows"]


def test_one_that_was_woken_is_told_also_where_its_work_was_never_seen(declared: Bus) -> None:
    told = Told(declared)
    told.readings.adopt({})
    told.readings.adopt({}, woken={"quick"})
    assert told.functions == ["quick"]


def test_the_first_reading_after_none_is_told_to_all(declared: Bus) -> None:
    told = Told(declared)
    told.readings.adopt({})
    told.readings.adopt({})
    assert told.firsts == 1
    told.readings.forget()
    assert told.readings.of(FUNCTION) is None
    told.readings.adopt({})
    assert told.firsts == 2


async def test_a_look_that_is_asked_for_comes_at_once(declared: Bus) -> None:
    async with reading(Told(declared)) as readings:
        await send(declared)
        readings.look()
        async with asyncio.timeout(1):
            await eventually(lambda: readings.of(FUNCTION) == 1)


async def test_while_there_is_work_it_looks_every_two_seconds(declared: Bus) -> None:
    await send(declared)
    async with reading(Told(declared)) as readings:
        await send(declared)
        async with asyncio.timeout(4):
            await eventually(lambda: readings.of(FUNCTION) == 2)


async def test_without_a_broker_nothing_is_known_until_it_is_back(own: Broker) -> None:
    async with bus(own.url, "readings") as made, reading(Told(made)) as readings:
        own.kill()
        await made.connection.session.ended.wait()
        readings.look()
        await eventually(lambda: readings.of(FUNCTION) is None)
        own.start()
        await eventually(lambda: readings.of(FUNCTION) == 0)
