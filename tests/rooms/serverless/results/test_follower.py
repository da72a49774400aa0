"""The results role on a real broker, with a store in memory."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from random import Random

import attrs
import msgspec

from gpuruntime.bus.chunks import CHUNK_BYTES, Bodies
from gpuruntime.bus.errors import MissingError
from gpuruntime.bus.messages import NULL, Invocation, Record, encode
from gpuruntime.bus.names import RESULTS, Names
from gpuruntime.bus.pull import PullOptions
from gpuruntime.bus.records import StoredRecord
from gpuruntime.models.kinds.invocations import State
from gpuruntime.serverless.results.follower import MOST_IN_HAND, Results, ResultsOptions
from gpuruntime.serverless.results.store_state import StoreState
from gpuruntime.telemetry.metrics import Registry
from tests.eventually import equals, eventually
from tests.options import configured
from tests.rooms.bus.broker import FUNCTION, Broker, Bus, bus, connection
from tests.rooms.serverless.results.results import Shelf

QUICK = configured(
    ResultsOptions,
    grace_seconds=0.2,
    ack_wait_seconds=1.5,
    longest_pause_seconds=0.5,
    look_seconds=0.3,
    pull=PullOptions(expires_seconds=1.0, heartbeat_seconds=0.25, pause_seconds=0.1),
)


def record(name: str, state: State = State.QUEUED, **changes: object) -> Record:
    now = datetime.now(UTC)
    made = Record(
        invocationID=name,
        serverlessRequestID=FUNCTION,
        state=state,
        acceptedAt=now,
        deadlineAt=now + timedelta(seconds=60),
    )
    return attrs.evolve(made, **changes)  # type: ignore[arg-type]  # whatever the test says


def soon(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


class Replica:
    def __init__(self, results: Results, metrics: Registry) -> None:
        self.results = results
        self._metrics = metrics

    def count(self, name: str) -> int:
        for line in self._metrics.text().decode().splitlines():
            if line.startswith(f"gpuruntime_results_{name}"):
                return int(float(line.split()[1]))
        return 0

    def ended(self, state: str) -> int:
        """Wait until its metrics count this many in this state."""
        name = f'gpuruntime_serverless_invocations_ended_total{{state="{state}"}} '
        lines = self._metrics.text().decode().splitlines()
        return sum(int(float(line.removeprefix(name))) for line in lines if line.startswith(name))


@asynccontextmanager
async def replica(
    made: Bus, shelf: Shelf | None = None, options: ResultsOptions = QUICK
) -> AsyncIterator[Replica]:
    """End it as a kill would: records in progress are not finished."""
    metrics, rng = Registry(), Random(5)

    def now() -> datetime:
        return datetime.now(UTC)

    keeping = None
    if shelf is not None:
        keeping = StoreState(
            shelf, retention_seconds=60, window_seconds=10, now=now, rng=rng, meter=metrics
        )
    async with connection(made.url) as own, asyncio.TaskGroup() as tasks:
        results = Results(own, made.names, options, keeping, now=now, rng=rng, meter=metrics)
        running = tasks.create_task(results.run())
        try:
            yield Replica(results, metrics)
        finally:
            running.cancel()


async def unanswered(made: Bus) -> tuple[int, int] | None:
    """Return how many records are unacknowledged, and how many undelivered.

    Return None before a replica has created the consumer.
    """
    try:
        told = await made.jetstream.call(f"CONSUMER.INFO.{made.names.states}.{RESULTS}")
    except MissingError:
        return None
    return told["num_ack_pending"], told["num_pending"]  # type: ignore[return-value]  # JSON


async def all_done(made: Bus, *, but: int = 0) -> None:
    await eventually(lambda: unanswered(made), equals((but, 0)))


async def state_of(made: Bus, name: str) -> State | None:
    stored = await made.records.read(FUNCTION, name)
    return stored.record.state if stored else None


async def test_an_invocation_expires_once_just_after_its_deadline(declared: Bus) -> None:
    shelf = Shelf()
    async with replica(declared, shelf) as one, replica(declared, shelf) as two:
        deadline = soon(1.0)
        names = [f"i{number}" for number in range(20)]
        for name in names:
            state = State.RUNNING if name.endswith("3") else State.QUEUED
            await declared.records.write(record(name, state, deadlineAt=deadline), expected=0)
        await eventually(lambda: len(shelf.kept) == len(names))
        await all_done(declared)
        assert one.count("expired") + two.count("expired") == len(names)
    for name in names:
        kept = shelf.kept[(FUNCTION, name)]
        assert timedelta() <= shelf.written_at[name] - deadline < timedelta(seconds=3)
        assert kept == await declared.records.read(FUNCTION, name)
        assert kept.record.state is State.EXPIRED
        assert kept.record.completedAt
        late = (kept.record.completedAt - deadline).total_seconds()
        assert QUICK.grace_seconds <= late < 3


async def test_an_invocation_that_ends_in_time_is_kept_as_it_ended(declared: Bus) -> None:
    shelf = Shelf()
    async with replica(declared, shelf) as one:
        queued = await declared.records.write(record("a", deadlineAt=soon(1.0)), expected=0)
        await all_done(declared, but=1)
        ended = await declared.records.write(
            record("a", State.SUCCEEDED, deadlineAt=soon(0)), expected=queued.revision
        )
        await eventually(lambda: shelf.kept, equals({(FUNCTION, "a"): ended}))
        await asyncio.sleep(1.5)
        assert one.count("expired") == 0
        assert await state_of(declared, "a") is State.SUCCEEDED
        await all_done(declared)


async def test_without_a_store_the_end_stays_in_the_stream_only(declared: Bus) -> None:
    async with replica(declared) as one:
        await declared.records.write(record("a", State.FAILED), expected=0)
        await declared.records.write(record("b", deadlineAt=soon(0.2)), expected=0)
        await eventually(lambda: one.count("expired"), equals(1))
        await all_done(declared)
        assert await state_of(declared, "a") is State.FAILED
        assert await state_of(declared, "b") is State.EXPIRED
        assert [one.ended(state) for state in ("failed", "expired", "succeeded")] == [1, 1, 0]
        assert one.results.not_ready == ""


async def test_an_expired_record_stays_in_the_stream_for_its_retention(declared: Bus) -> None:
    async with replica(declared) as one:
        await declared.records.write(record("a", deadlineAt=soon(0)), expected=0)
        await eventually(lambda: one.count("expired"), equals(1))
        told = await declared.jetstream.call(
            f"STREAM.MSG.GET.{declared.names.states}",
            {"last_by_subj": declared.names.state(FUNCTION, "a")},
        )
        message = told["message"]
        assert isinstance(message, dict)
        headers = base64.b64decode(str(message["hdrs"]))
        assert f"Nats-TTL: {QUICK.stream_retention_seconds:.0f}s".encode() in headers


async def test_records_that_arrive_while_the_store_is_unreachable_are_kept_later(
    declared: Bus,
) -> None:
    shelf = Shelf()
    shelf.away = "no database"
    async with replica(declared, shelf) as one:
        for number in range(30):
            await declared.records.write(record(f"i{number}", State.SUCCEEDED), expected=0)
        await declared.records.write(record("late", deadlineAt=soon(0.5)), expected=0)
        await eventually(lambda: one.count("expired"), equals(1))
        assert one.results.not_ready == "no database"
        assert not shelf.kept
        shelf.away = ""
        await eventually(lambda: len(shelf.kept), equals(31))
        await all_done(declared)
        assert one.results.not_ready == ""


async def test_records_that_a_killed_replica_held_are_redelivered_to_another(
    declared: Bus,
) -> None:
    class Slow(Shelf):
        async def keep(self, stored: StoredRecord, parts: object, *, written_at: object) -> bool:
            await asyncio.sleep(3600)
            raise AssertionError(stored, parts, written_at)

    shelf = Shelf()
    async with replica(declared, Slow()) as one:
        for number in range(10):
            await declared.records.write(record(f"i{number}", State.SUCCEEDED), expected=0)
        await eventually(lambda: one.results.in_hand, equals(10))
    assert not shelf.kept
    async with replica(declared, shelf):
        await eventually(lambda: len(shelf.kept), equals(10))
        await all_done(declared)


async def test_a_redelivery_of_everything_changes_nothing(declared: Bus) -> None:
    """A recreated consumer delivers everything that is still in the stream."""
    shelf = Shelf()
    async with replica(declared, shelf) as one:
        await declared.records.write(record("a", State.SUCCEEDED), expected=0)
        await declared.records.write(record("b", deadlineAt=soon(0.1)), expected=0)
        await eventually(lambda: len(shelf.kept), equals(2))
        await all_done(declared)
        before = dict(shelf.kept)
        await declared.jetstream.call(f"CONSUMER.DELETE.{declared.names.states}.{RESULTS}")
        await eventually(lambda: one.count("known"), equals(2))
        await all_done(declared)
        assert shelf.kept == before
        assert one.count("expired") == 1


async def test_work_continues_when_the_broker_comes_back(own: Broker) -> None:
    shelf = Shelf()
    async with bus(own.url, "back") as made, replica(made, shelf) as one:
        await made.records.write(record("a", deadlineAt=soon(2.0)), expected=0)
        await all_done(made, but=1)
        own.kill()
        await eventually(lambda: one.results.not_ready != "")
        own.start()
        await eventually(lambda: one.count("expired"), equals(1))
        await eventually(lambda: one.results.not_ready, equals(""))
        await eventually(lambda: len(shelf.kept), equals(1))


async def test_a_replica_waits_for_undeclared_streams(own: Broker) -> None:
    async with connection(own.url) as connected:
        early = Results(
            connected,
            Names("early"),
            QUICK,
            None,
            now=lambda: datetime.now(UTC),
            rng=Random(1),
            meter=Registry(),
        )
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(early.run())
            await eventually(lambda: "an api or an activator creates it" in early.not_ready)
            async with bus(own.url, "early"):
                await eventually(lambda: early.not_ready, equals(""))
            running.cancel()


async def test_a_record_that_names_another_functions_invocation_is_ignored(declared: Bus) -> None:
    """A function's workers may write anything, but only under its own subjects."""
    shelf = Shelf()
    victim = await declared.records.write(record("victim"), expected=0)
    forged = record("victim", State.SUCCEEDED, deadlineAt=soon(-9))
    overdue = attrs.evolve(forged, state=State.QUEUED)
    async with replica(declared, shelf) as one:
        for name, said in (("x", forged), ("y", overdue)):
            subject = declared.names.state("hostile", name)
            await declared.jetstream.publish(subject, encode(said), message_id=name)
        await eventually(lambda: one.count("unreadable"), equals(2))
        assert not shelf.kept
        assert await declared.records.read(FUNCTION, "victim") == victim


async def test_a_malformed_record_does_not_stop_the_others(declared: Bus) -> None:
    shelf = Shelf()
    async with replica(declared, shelf) as one:
        subject = declared.names.state(FUNCTION, "odd")
        await declared.jetstream.publish(subject, b"\xff{", message_id="odd")
        await declared.records.write(record("a", State.SUCCEEDED), expected=0)
        await eventually(lambda: len(shelf.kept), equals(1))
        await all_done(declared)
        assert one.count("unreadable") == 1


async def test_a_long_body_is_passed_to_the_store_part_by_part(declared: Bus) -> None:
    shelf = Shelf()
    body = Random(4).randbytes(2 * CHUNK_BYTES + 7)
    long = record("long", State.SUCCEEDED)
    count = await Bodies(declared.jetstream, declared.names).write(long, body, ttl_seconds=60)
    async with replica(declared, shelf):
        spoken = attrs.evolve(long, body=NULL, bodyParts=count)
        await declared.records.write(spoken, expected=0)
        lost = attrs.evolve(spoken, invocationID="lost")
        await declared.records.write(lost, expected=0)
        await eventually(lambda: len(shelf.kept), equals(2))
        assert b"".join(shelf.bodies[(FUNCTION, "long")]) == body
        assert shelf.bodies[(FUNCTION, "lost")] == []


async def queue_message(made: Bus, name: str) -> int:
    now = datetime.now(UTC)
    sent = Invocation(
        invocationID=name,
        serverlessRequestID=FUNCTION,
        payload=msgspec.Raw(b"1"),
        revision=1,
        acceptedAt=now,
        deadlineAt=now,
    )
    stored = await made.jetstream.publish(
        made.names.invoke(FUNCTION), encode(sent), message_id=name
    )
    return stored.sequence


async def test_the_message_of_an_expired_invocation_is_deleted_and_no_other(
    declared: Bus,
) -> None:
    own, other = await queue_message(declared, "own"), await queue_message(declared, "other")
    async with replica(declared) as one:
        for name, sequence in (("own", own), ("mistaken", other), ("gone", 99)):
            running = record(name, State.RUNNING, sequence=sequence, deadlineAt=soon(-1))
            await declared.records.write(running, expected=0)
        await eventually(lambda: one.count("expired"), equals(3))
        await all_done(declared)
        await eventually(lambda: one.results.in_hand, equals(0))
    told = await declared.jetstream.call(f"STREAM.INFO.{declared.names.invocations}")
    state = told["state"]
    assert isinstance(state, dict)
    assert (state["first_seq"], state["messages"]) == (other, 1)


async def test_a_stopping_replica_finishes_its_records_and_takes_no_more(
    declared: Bus,
) -> None:
    gate = asyncio.Event()

    class Gated(Shelf):
        async def keep(self, *arguments: object, **options: object) -> bool:
            await gate.wait()
            return await super().keep(*arguments, **options)  # type: ignore[arg-type]  # passed on

    shelf = Gated()
    async with replica(declared, shelf) as one, asyncio.TaskGroup() as tasks:
        await declared.records.write(record("a", State.SUCCEEDED), expected=0)
        await eventually(lambda: one.results.in_hand, equals(1))
        draining = tasks.create_task(one.results.drain())
        await asyncio.sleep(0.5)
        await declared.records.write(record("b", State.SUCCEEDED), expected=0)
        await asyncio.sleep(0.5)
        assert one.results.not_ready == "stopping"
        assert not draining.done()
        gate.set()
        await draining
        assert [name for _, name in shelf.kept] == ["a"]


async def test_no_more_records_are_in_progress_than_allowed(declared: Bus) -> None:
    count = MOST_IN_HAND

    class Slow(Shelf):
        most = 0
        now = 0

        async def keep(self, *arguments: object, **options: object) -> bool:
            self.now += 1
            self.most = max(self.most, self.now)
            await asyncio.sleep(0.01)
            self.now -= 1
            return await super().keep(*arguments, **options)  # type: ignore[arg-type]  # passed on

    shelf = Slow()
    for number in range(3 * count):
        await declared.records.write(record(f"i{number}", State.SUCCEEDED), expected=0)
    async with replica(declared, shelf):
        await eventually(lambda: len(shelf.kept), equals(3 * count))
    assert 2 <= shelf.most <= count
