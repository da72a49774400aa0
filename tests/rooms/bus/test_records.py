import asyncio
from datetime import UTC, datetime
from operator import not_
from random import Random
from typing import Never

import attrs
import pytest

from gpuruntime.bus.errors import BusError, OutcomeUnknownError, RefusedError, UnavailableError
from gpuruntime.bus.jetstream import JetStream, StoredMessage
from gpuruntime.bus.messages import Record
from gpuruntime.bus.records import ConflictError, Records
from gpuruntime.models.kinds.invocations import State
from tests.eventually import eventually
from tests.rooms.bus.broker import FUNCTION, Broker, Bus, bus

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def record(name: str, state: State = State.QUEUED) -> Record:
    return Record(
        invocationID=name,
        serverlessRequestID=FUNCTION,
        state=state,
        acceptedAt=NOW,
        deadlineAt=NOW,
    )


async def test_a_record_is_read_as_written_with_its_revision(declared: Bus) -> None:
    written = await declared.records.write(record("a"), expected=0)
    assert await declared.records.read(FUNCTION, "a") == written
    assert await declared.records.read(FUNCTION, "b") is None


async def test_one_of_two_writers_wins_and_the_other_receives_its_record(
    declared: Bus,
) -> None:
    first = await declared.records.write(record("a"), expected=0)
    running = attrs.evolve(record("a", State.RUNNING), attempt=1)
    won: list[int] = []
    lost: list[ConflictError] = []

    async def write(worker: str) -> None:
        mine = attrs.evolve(running, workerName=worker)
        records = Records(declared.jetstream, declared.names, rng=Random(worker))
        try:
            won.append((await records.write(mine, expected=first.revision)).revision)
        except ConflictError as error:
            lost.append(error)

    async with asyncio.TaskGroup() as tasks:
        for number in range(8):
            tasks.create_task(write(f"w{number}"))
    assert len(won) == 1
    assert {error.current.revision for error in lost if error.current} == set(won)
    assert len(lost) == 7


async def test_a_deleted_record_is_a_conflict_without_a_record(declared: Bus) -> None:
    stored = await declared.records.write(record("a"), expected=0)
    await declared.records.delete(stored)
    with pytest.raises(ConflictError) as caught:
        await declared.records.write(record("a"), expected=stored.revision)
    assert caught.value.current is None


async def test_a_write_whose_answer_is_lost_is_recognised_by_its_token(own: Broker) -> None:
    """The broker stores the write and is killed before its answer is read."""
    async with bus(own.url, "token") as made:
        own.pause()
        async with asyncio.TaskGroup() as tasks:
            written = tasks.create_task(made.records.write(record("a"), expected=0))
            await asyncio.sleep(0.1)
            await made.connection.session._client.close()
            await eventually(lambda: made.connection.is_connected, not_)
            own.resume()
        assert written.result() == await made.records.read(FUNCTION, "a")


async def test_a_lost_write_is_not_mistaken_for_the_stored_one(declared: Bus) -> None:
    class Losing(JetStream):
        async def publish(self, *_: object, **_options: object) -> Never:
            raise OutcomeUnknownError("no answer")

    stored = await declared.records.write(record("a"), expected=0)
    records = Records(Losing(declared.connection), declared.names, rng=Random(7))
    with pytest.raises(OutcomeUnknownError):
        await records.write(record("a"), expected=stored.revision)


class Repeating(JetStream):
    """Sends everything twice and returns the second answer."""

    async def publish(self, *arguments: object, **options: object) -> object:  # type: ignore[override]  # whatever it takes
        await super().publish(*arguments, **options)  # type: ignore[arg-type]  # passed on
        return await super().publish(*arguments, **options)  # type: ignore[arg-type]  # passed on


class Unreadable(Repeating):
    """A client whose following reads fail as well."""

    problem: BusError = UnavailableError("no responder")

    async def last(self, *_: str) -> StoredMessage | None:
        raise self.problem


async def test_a_repeated_write_that_was_stored_is_not_a_conflict(declared: Bus) -> None:
    records = Records(Repeating(declared.connection), declared.names, rng=Random(7))
    written = await records.write(record("a"), expected=0)
    assert written == await declared.records.read(FUNCTION, "a")
    with pytest.raises(ConflictError):
        await records.write(record("a"), expected=0)


@pytest.mark.parametrize(
    "problem",
    [UnavailableError("no responder"), RefusedError("503 not now", 503)],
    ids=["no responder", "refused"],
)
async def test_a_refusal_with_an_unreadable_record_has_an_unknown_outcome(
    declared: Bus, problem: BusError
) -> None:
    jetstream = Unreadable(declared.connection)
    jetstream.problem = problem
    records = Records(jetstream, declared.names, rng=Random(7))
    with pytest.raises(OutcomeUnknownError, match=str(problem)):
        await records.write(record("a"), expected=0)
    assert await declared.records.read(FUNCTION, "a") is not None


async def test_a_lost_answer_with_an_unreadable_record_has_an_unknown_outcome(
    declared: Bus,
) -> None:
    class Forgetful(Unreadable):
        problem = RefusedError("503 not now", 503)

        async def publish(self, *arguments: object, **options: object) -> object:  # type: ignore[override]  # whatever it takes
            await super().publish(*arguments, **{**options, "expected_sequence": None})
            raise OutcomeUnknownError("no answer")

    records = Records(Forgetful(declared.connection), declared.names, rng=Random(7))
    with pytest.raises(OutcomeUnknownError, match="no answer"):
        await records.write(record("a"), expected=0)
