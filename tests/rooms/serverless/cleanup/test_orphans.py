from datetime import UTC, datetime
from typing import Any

import attrs

from gpuruntime.bus.messages import Record
from gpuruntime.models.kinds.invocations import FailureClass, State
from gpuruntime.serverless.cleanup.orphans import Orphans
from tests.rooms.bus.broker import FUNCTION, Bus
from tests.rooms.worker.invocations import accept
from tests.rooms.worker.workers import left_in_stream


def orphans_of(made: Bus) -> Orphans:
    return Orphans(
        made.jetstream,
        made.records,
        made.names,
        retention_seconds=60,
        now=lambda: datetime.now(UTC),
    )


async def record_of(made: Bus, name: str) -> Record:
    found = await made.records.read(FUNCTION, name)
    assert found is not None
    return found.record


async def turn(made: Bus, name: str, state: State, **members: Any) -> None:
    found = await made.records.read(FUNCTION, name)
    assert found is not None
    changed = attrs.evolve(found.record, state=state, **members)
    await made.records.write(changed, expected=found.revision)


async def test_queued_invocations_end_and_say_why(declared: Bus) -> None:
    for name in ("one", "two"):
        await accept(declared, name)
    assert await orphans_of(declared).end(FUNCTION, has_workers=False)
    for name in ("one", "two"):
        record = await record_of(declared, name)
        assert record.state is State.FAILED
        assert record.failureClass is FailureClass.NO_WORKER_TEMPLATE
        assert record.completedAt is not None
    assert await left_in_stream(declared) == 0


async def test_what_runs_ends_only_when_no_worker_is_left(declared: Bus) -> None:
    await accept(declared, "one")
    await turn(declared, "one", State.RUNNING, attempt=1)
    assert not await orphans_of(declared).end(FUNCTION, has_workers=True)
    assert (await record_of(declared, "one")).state is State.RUNNING
    assert await orphans_of(declared).end(FUNCTION, has_workers=False)
    assert (await record_of(declared, "one")).state is State.FAILED


async def test_an_end_that_is_there_already_stays(declared: Bus) -> None:
    await accept(declared, "one")
    await turn(declared, "one", State.CANCELLED)
    assert await orphans_of(declared).end(FUNCTION, has_workers=False)
    assert (await record_of(declared, "one")).state is State.CANCELLED
    assert await left_in_stream(declared) == 0


async def test_a_message_of_an_older_series_is_dropped_and_ends_nothing(declared: Bus) -> None:
    await accept(declared, "one")
    await turn(declared, "one", State.QUEUED, series=2)
    assert await orphans_of(declared).end(FUNCTION, has_workers=False)
    assert (await record_of(declared, "one")).state is State.QUEUED


async def test_what_is_no_invocation_is_dropped(declared: Bus) -> None:
    await declared.jetstream.publish(declared.names.invoke(FUNCTION), b"no invocation")
    assert await orphans_of(declared).end(FUNCTION, has_workers=False)
    assert await left_in_stream(declared) == 0


async def test_invocations_of_other_functions_are_not_touched(declared: Bus) -> None:
    await accept(declared, "one")
    assert await orphans_of(declared).end("other", has_workers=False)
    assert (await record_of(declared, "one")).state is State.QUEUED
    assert await left_in_stream(declared) == 1
