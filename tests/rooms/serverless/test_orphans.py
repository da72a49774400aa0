from collections.abc import Collection
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gpuruntime.bus.messages import Heartbeat, Record, WorkerState, encode
from gpuruntime.bus.session import Message
from gpuruntime.models.kinds.functions import Serverless, WorkerOf
from gpuruntime.models.kinds.invocations import FailureClass, State
from gpuruntime.models.kinds.units import GPUUnit, GPUUnitSpec
from gpuruntime.operations.lookup.caches import Cache
from gpuruntime.serverless import orphans
from gpuruntime.serverless.orphans import AGAIN_SECONDS, Orphans, Takeovers
from gpuruntime.serverless.scaling.heartbeats import Heartbeats
from tests.rooms.bus.broker import FUNCTION, Bus
from tests.rooms.worker.invocations import accept, turn
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


async def test_queued_invocations_end_with_a_reason(declared: Bus) -> None:
    for name in ("one", "two"):
        await accept(declared, name)
    assert await orphans_of(declared).end(FUNCTION, has_workers=False)
    for name in ("one", "two"):
        record = await record_of(declared, name)
        assert record.state is State.FAILED
        assert record.failureClass is FailureClass.NO_WORKER_TEMPLATE
        assert record.completedAt is not None
    assert await left_in_stream(declared) == 0


async def test_running_invocations_end_only_when_no_worker_is_left(declared: Bus) -> None:
    await accept(declared, "one")
    await turn(declared, "one", state=State.RUNNING, attempt=1)
    assert not await orphans_of(declared).end(FUNCTION, has_workers=True)
    assert (await record_of(declared, "one")).state is State.RUNNING
    assert await orphans_of(declared).end(FUNCTION, has_workers=False)
    assert (await record_of(declared, "one")).state is State.FAILED


async def test_an_earlier_end_is_kept(declared: Bus) -> None:
    await accept(declared, "one")
    await turn(declared, "one", state=State.CANCELLED)
    assert await orphans_of(declared).end(FUNCTION, has_workers=False)
    assert (await record_of(declared, "one")).state is State.CANCELLED
    assert await left_in_stream(declared) == 0


async def test_a_message_of_an_older_series_is_dropped_and_ends_nothing(declared: Bus) -> None:
    await accept(declared, "one")
    await turn(declared, "one", state=State.QUEUED, series=2)
    assert await orphans_of(declared).end(FUNCTION, has_workers=False)
    assert (await record_of(declared, "one")).state is State.QUEUED


async def test_a_malformed_message_is_dropped(declared: Bus) -> None:
    await declared.jetstream.publish(declared.names.invoke(FUNCTION), b"no invocation")
    assert await orphans_of(declared).end(FUNCTION, has_workers=False)
    assert await left_in_stream(declared) == 0


async def test_invocations_of_other_functions_are_not_touched(declared: Bus) -> None:
    await accept(declared, "one")
    assert await orphans_of(declared).end("other", has_workers=False)
    assert (await record_of(declared, "one")).state is State.QUEUED
    assert await left_in_stream(declared) == 1


class Serving:
    """The existing workers of the function."""

    def __init__(self) -> None:
        self.workers: list[GPUUnit] = []

    def by_index(self, _: str, __: str) -> Collection[GPUUnit]:
        return self.workers

    def add(self, made_by: str) -> None:
        function = Serverless(requestID=FUNCTION, workerOf=WorkerOf(name="t", uid=made_by))
        self.workers.append(GPUUnit(spec=GPUUnitSpec(specName="g1.1", serverless=function)))


def takeovers(made: Bus, serving: Serving) -> tuple[Takeovers, Heartbeats]:
    beats = Heartbeats(made.names, {"w": "u"}.get)
    cache = cast(Cache[GPUUnit], SimpleNamespace(store=serving))
    return Takeovers(cache, orphans_of(made), beats), beats


def meet(made: Bus, beats: Heartbeats, foreign: int) -> None:
    told = Heartbeat(
        workerName="w",
        serverlessRequestID=FUNCTION,
        state=WorkerState.READY,
        foreign=foreign,
    )
    beats.receive(Message(made.names.beat(FUNCTION, "w"), encode(told)), at=1)


async def test_only_invocations_for_another_declarer_end(declared: Bus) -> None:
    for name, declarer in (("theirs", "a"), ("ours", "b"), ("nobodys", "")):
        await accept(declared, name, declarer=declarer)
    made, _ = takeovers(declared, Serving())
    assert await made.advance(FUNCTION, "b", depth=3) is None
    record = await record_of(declared, "theirs")
    assert (record.state, record.failureClass) == (State.FAILED, FailureClass.NO_WORKER_TEMPLATE)
    for name in ("ours", "nobodys"):
        assert (await record_of(declared, name)).state is State.QUEUED
    assert await left_in_stream(declared) == 2


async def test_a_later_invocation_is_ended_once_a_worker_has_met_it(declared: Bus) -> None:
    """A replica that does not know the new declarer yet accepts for the earlier one."""
    made, beats = takeovers(declared, Serving())
    assert await made.advance(FUNCTION, "b", depth=0) is None
    await accept(declared, "late", declarer="a")
    assert await made.advance(FUNCTION, "b", depth=1) is None
    assert (await record_of(declared, "late")).state is State.QUEUED
    meet(declared, beats, 1)
    assert await made.advance(FUNCTION, "b", depth=1) is None
    assert (await record_of(declared, "late")).state is State.FAILED


async def test_the_walk_is_not_over_while_the_depth_is_unknown(declared: Bus) -> None:
    await accept(declared, "theirs", declarer="a")
    made, _ = takeovers(declared, Serving())
    assert await made.advance(FUNCTION, "b", depth=None) is None
    assert await made.advance(FUNCTION, "b", depth=1) is None
    assert (await record_of(declared, "theirs")).state is State.FAILED


async def test_each_declarer_ends_its_predecessors_invocations(declared: Bus) -> None:
    made, _ = takeovers(declared, Serving())
    assert await made.advance(FUNCTION, "a", depth=0) is None
    await accept(declared, "theirs", declarer="a")
    assert await made.advance(FUNCTION, "b", depth=1) is None
    assert (await record_of(declared, "theirs")).state is State.FAILED


async def test_running_invocations_are_left_to_the_earlier_declarers_workers(
    declared: Bus,
) -> None:
    await accept(declared, "theirs", declarer="a")
    await turn(declared, "theirs", state=State.RUNNING, attempt=1)
    serving = Serving()
    serving.add("a")
    serving.add("b")
    made, _ = takeovers(declared, serving)
    assert await made.advance(FUNCTION, "b", depth=1) == AGAIN_SECONDS
    assert (await record_of(declared, "theirs")).state is State.RUNNING
    del serving.workers[0]
    assert await made.advance(FUNCTION, "b", depth=1) is None
    assert (await record_of(declared, "theirs")).state is State.FAILED


async def test_a_long_queue_is_walked_in_several_passes(
    declared: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orphans, "MOST_AT_ONCE", 2)
    for number in range(4):
        await accept(declared, f"ours-{number}", declarer="b")
    await accept(declared, "theirs", declarer="a")
    made, _ = takeovers(declared, Serving())
    looks: list[Any] = []
    while not looks or looks[-1] is not None:
        looks.append(await made.advance(FUNCTION, "b", depth=5))
    assert looks == [0.0, 0.0, None]
    assert (await record_of(declared, "theirs")).state is State.FAILED
    assert await left_in_stream(declared) == 4
