"""The expiry of an invocation races with every other component that may end it.

Each series of each invocation has one terminal record, whichever component wins, and that record
is kept.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from random import Random

import attrs
import pytest

from gpuruntime.bus.delivery import Delivery
from gpuruntime.bus.messages import Invocation, Record, encode, read
from gpuruntime.bus.names import dead_letter_id
from gpuruntime.bus.records import ConflictError, StoredRecord
from gpuruntime.bus.session import Message
from gpuruntime.models.kinds.invocations import FailureClass, State
from gpuruntime.serverless.errors import AlreadyFinishedError, ServerlessError
from gpuruntime.worker.outcome_writer import OutcomeWriter
from tests.eventually import eventually
from tests.rooms.bus.broker import FUNCTION, Broker, Bus
from tests.rooms.serverless.calling.ingress import Site, asked, site
from tests.rooms.serverless.conftest import PREFIXES
from tests.rooms.serverless.results.results import Shelf
from tests.rooms.serverless.results.test_follower import QUICK, Replica, all_done, replica

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.serverless) for seed in range(1, 8))]
NAMES = [f"i{number}" for number in range(40)]
LIFE_SECONDS = 1.0
# Well before the expiry, at that moment, or well after it.
BEFORE, AFTER = -0.8, 1.5


class History:
    """Every record that was written, in order, by invocation."""

    def __init__(self) -> None:
        self.records: dict[str, list[Record]] = defaultdict(list)

    def hear(self, message: Message) -> None:
        record = read(message.data, Record)
        self.records[record.invocationID].append(record)

    def judge(self) -> Counter[State]:
        """Check that each series has one end, and return how often each end occurred."""
        ends: Counter[State] = Counter()
        for name, records in self.records.items():
            by_series: dict[int, list[Record]] = defaultdict(list)
            for record in records:
                by_series[record.series].append(record)
            for series in by_series.values():
                states = [record.state for record in series]
                assert [state.is_terminal for state in states].count(True) == 1, (name, states)
                assert states[-1].is_terminal, (name, states)
                ends[states[-1]] += 1
        return ends


@attrs.frozen
class Ring:
    """An API, two replicas of results with one store, and a worker's writer."""

    site: Site
    shelf: Shelf
    replicas: tuple[Replica, Replica]
    history: History
    ends: OutcomeWriter
    rng: Random

    @property
    def bus(self) -> Bus:
        return self.site.bus

    def expired(self) -> int:
        return sum(each.count("expired") for each in self.replicas)

    async def at_the_end_of(self, deadline: datetime) -> None:
        """Return a moment around the expiry, or clearly before or after it."""
        offset = self.rng.choice([BEFORE, AFTER, *(self.rng.uniform(-0.1, 0.1),) * 6])
        due = deadline + timedelta(seconds=QUICK.grace_seconds + offset)
        await asyncio.sleep(max((due - datetime.now(UTC)).total_seconds(), 0.0))

    async def start(self, name: str) -> StoredRecord:
        """Accept an invocation and start it as a worker does."""
        accepted = await self.site.ingress.acceptance.accept(
            asked(name, lifeSeconds=int(LIFE_SECONDS))
        )
        queued = await self.bus.records.read(FUNCTION, name)
        assert queued
        running = attrs.evolve(
            accepted.record, state=State.RUNNING, attempt=1, sequence=accepted.sequence
        )
        return await self.bus.records.write(running, expected=queued.revision)

    async def settled(self, ends: int) -> None:
        """Wait until this many series have ended and all of them are kept."""
        await eventually(
            lambda: (
                sum(
                    record.state.is_terminal
                    for records in self.history.records.values()
                    for record in records
                )
                >= ends
            )
        )
        await all_done(self.bus)
        for name in self.history.records:
            assert self.shelf.kept[(FUNCTION, name)] == await self.bus.records.read(FUNCTION, name)


@asynccontextmanager
async def ring(broker: Broker, seed: int) -> AsyncIterator[Ring]:
    shelf, history = Shelf(), History()
    async with site(broker.url, f"r{next(PREFIXES)}") as made:
        bus = made.bus
        ends = OutcomeWriter(
            bus.jetstream,
            bus.records,
            bus.names,
            retention_seconds=60,
            now=lambda: datetime.now(UTC),
        )
        async with (
            bus.connection.listening(f"{bus.names.prefix}.changed.>", history.hear),
            replica(bus, shelf) as one,
            replica(bus, shelf) as two,
        ):
            yield Ring(made, shelf, (one, two), history, ends, Random(seed))


async def everywhere(act: Callable[[str], Awaitable[bool]], names: list[str]) -> int:
    """Run all at once and return how many of them came first."""
    won: list[bool] = []

    async def one(name: str) -> None:
        won.append(await act(name))

    async with asyncio.TaskGroup() as tasks:
        for name in names:
            tasks.create_task(one(name))
    return sum(won)


def delivered(record: Record) -> Delivery:
    """Return the delivery that a running record names, as its worker holds it."""
    message = Invocation(
        invocationID=record.invocationID,
        serverlessRequestID=record.serverlessRequestID,
        requestHash=record.requestHash,
        series=record.series,
        revision=1,
        acceptedAt=record.acceptedAt,
        deadlineAt=record.deadlineAt,
    )
    data, at = encode(message), record.acceptedAt
    return Delivery("", data, record.sequence, 1, at, "", None)  # type: ignore[arg-type]  # not answered


async def finish(at: Ring, mine: StoredRecord, state: State) -> bool:
    """End the invocation as its worker does, which believes that it owns the record."""
    await at.at_the_end_of(mine.record.deadlineAt)
    done = attrs.evolve(mine.record, state=state, completedAt=datetime.now(UTC))
    if state is State.DEAD_LETTERED:
        done = attrs.evolve(done, failureClass=FailureClass.RETRY_EXHAUSTED)
    try:
        await at.ends.write(done, delivered(mine.record), expected=mine.revision)
    except ConflictError:
        return False
    return True


async def cancel(at: Ring, name: str, deadline: datetime) -> bool:
    await at.at_the_end_of(deadline)
    try:
        await at.site.ingress.invocations.cancel(FUNCTION, name)
    except AlreadyFinishedError:
        return False
    return True


@pytest.mark.parametrize("seed", SEEDS)
async def test_an_expiry_and_the_end_of_an_attempt_have_one_winner(
    shared: Broker, seed: int
) -> None:
    async with ring(shared, seed) as at:

        async def run(name: str) -> bool:
            return await finish(at, await at.start(name), State.SUCCEEDED)

        won = await everywhere(run, NAMES)
        await at.settled(len(NAMES))
        ends = at.history.judge()
        assert ends == {State.SUCCEEDED: won, State.EXPIRED: len(NAMES) - won}
        assert at.expired() == len(NAMES) - won
        assert 0 < won < len(NAMES)


@pytest.mark.parametrize("seed", SEEDS)
async def test_an_expiry_and_a_cancellation_have_one_winner(shared: Broker, seed: int) -> None:
    async with ring(shared, seed) as at:

        async def run(name: str) -> bool:
            accepted = await at.site.ingress.acceptance.accept(
                asked(name, lifeSeconds=int(LIFE_SECONDS))
            )
            return await cancel(at, name, accepted.record.deadlineAt)

        won = await everywhere(run, NAMES)
        await at.settled(len(NAMES))
        assert at.history.judge() == {State.CANCELLED: won, State.EXPIRED: len(NAMES) - won}
        assert at.expired() == len(NAMES) - won
        assert 0 < won < len(NAMES)


@pytest.mark.parametrize("seed", SEEDS)
async def test_an_expiry_a_cancellation_and_a_worker_have_one_winner(
    shared: Broker, seed: int
) -> None:
    async with ring(shared, seed) as at:

        async def run(name: str) -> bool:
            mine = await at.start(name)
            async with asyncio.TaskGroup() as tasks:
                finished = tasks.create_task(finish(at, mine, State.FAILED))
                cancelled = tasks.create_task(cancel(at, name, mine.record.deadlineAt))
            assert not (finished.result() and cancelled.result())
            return finished.result() or cancelled.result()

        won = await everywhere(run, NAMES)
        await at.settled(len(NAMES))
        ends = at.history.judge()
        assert sum(ends.values()) == len(NAMES)
        assert at.expired() == ends[State.EXPIRED] == len(NAMES) - won


@pytest.mark.parametrize("seed", SEEDS)
async def test_each_series_of_an_invocation_redriven_while_it_expires_ends_once(
    shared: Broker, seed: int
) -> None:
    """The letter is written before its record, so an expired invocation may have one."""
    async with ring(shared, seed) as at:
        redriven: Counter[str] = Counter()

        async def redrive(name: str) -> None:
            await asyncio.sleep(at.rng.uniform(0.0, 2.5))
            try:
                accepted = await at.site.ingress.dead_letters.redrive(
                    dead_letter_id(FUNCTION, name, 1)
                )
            except ServerlessError:
                return
            if not accepted.is_duplicate:
                redriven[name] += 1

        async def run(name: str) -> bool:
            won = await finish(at, await at.start(name), State.DEAD_LETTERED)
            async with asyncio.TaskGroup() as tasks:
                for _ in range(3):
                    tasks.create_task(redrive(name))
            return won

        dead = await everywhere(run, NAMES)
        again = len(redriven)
        await at.settled(len(NAMES) + again)
        ends = at.history.judge()
        assert ends[State.DEAD_LETTERED] == dead
        assert ends[State.EXPIRED] == len(NAMES) - dead + again
        assert at.expired() == ends[State.EXPIRED]
        assert 0 < again <= dead
