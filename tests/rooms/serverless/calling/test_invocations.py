"""Whole invocations: accepted here, run by a real worker, and read or cancelled here."""

import asyncio
from collections.abc import AsyncIterator
from itertools import count
from operator import not_
from typing import Any

import attrs
import msgspec
import pytest
import pytest_asyncio

from gpuruntime.bus.chunks import CHUNK_BYTES
from gpuruntime.bus.errors import MissingError
from gpuruntime.bus.messages import Record, encode
from gpuruntime.bus.provisioning import declare_stream
from gpuruntime.bus.records import StoredRecord
from gpuruntime.bus.streams import declarations
from gpuruntime.framework.calls import Call
from gpuruntime.models.kinds.invocations import FailureClass, State, WaitingFor
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.serverless.calling.acceptance import queued_record
from gpuruntime.serverless.calling.invocations import Outcome
from gpuruntime.serverless.calling.waiting_status import NOT_SCALED
from gpuruntime.serverless.errors import (
    AlreadyFinishedError,
    InvocationConflictError,
    InvocationNotFoundError,
    QueueAwayError,
)
from gpuruntime.telemetry.metrics import Registry
from tests.eventually import equals, eventually
from tests.rooms.bus.broker import FUNCTION, SMALL, Broker
from tests.rooms.operations.cluster import INSTANCE
from tests.rooms.serverless.calling.ingress import Site, asked, site, wall_clock
from tests.rooms.worker.conftest import ACK_WAIT_SECONDS
from tests.rooms.worker.workers import Ledger, ended, until_empty, working

PREFIXES = count(1)


@pytest_asyncio.fixture
async def api(shared: Broker) -> AsyncIterator[Site]:
    async with site(shared.url, f"i{next(PREFIXES)}", ack_wait_seconds=ACK_WAIT_SECONDS) as made:
        yield made


async def call(api: Site, name: str = "one", **members: Any) -> Outcome:
    request = asked(name, mode="sync", **members)
    return await api.ingress.invocations.call(request, is_wanted=lambda: True)


async def read(api: Site, name: str = "one") -> Outcome:
    return await api.ingress.invocations.read(FUNCTION, name)


async def turned(api: Site, name: str = "one", **changes: Any) -> StoredRecord:
    stored = await api.bus.records.read(FUNCTION, name)
    assert stored is not None
    changed = attrs.evolve(stored.record, **changes)
    return await api.bus.records.write(changed, expected=stored.revision)


async def until_accepted(api: Site, name: str = "one") -> None:
    await eventually(lambda: api.state(name))


async def test_a_workers_answer_is_read(api: Site) -> None:
    ledger = Ledger()
    async with working(api.bus, ledger.handle):
        await api.ingress.acceptance.accept(asked(headers={"X-A": "b"}))
        await ended(api.bus, "one")
        outcome = await read(api)
    assert outcome.record.state is State.SUCCEEDED
    assert msgspec.json.decode(bytes(outcome.body)) == {"echo": {"n": 1}, "by": "w1"}
    await until_empty(api.bus)


async def test_a_long_body_is_read_completely(api: Site) -> None:
    text = "ä" * (2 * CHUNK_BYTES)

    async def long(_: Call) -> object:
        return text

    async with working(api.bus, long):
        outcome = await call(api)
        assert outcome.record.bodyParts > 2
        assert msgspec.json.decode(bytes(outcome.body)) == text
        assert bytes((await read(api)).body) == bytes(outcome.body)


async def test_an_invocation_whose_body_expired_is_not_found(api: Site) -> None:
    await api.ingress.acceptance.accept(asked())
    await turned(api, state=State.SUCCEEDED, attempt=1, bodyParts=2)
    with pytest.raises(InvocationNotFoundError):
        await read(api)


async def test_a_worker_cannot_write_the_invocation_of_another_function(api: Site) -> None:
    """It may write anything under its own function's subjects."""
    await api.ingress.acceptance.accept(asked())
    stored = await api.bus.records.read(FUNCTION, "one")
    assert stored is not None
    own_subject = api.bus.names.state("evil", "x")
    await api.bus.jetstream.publish(own_subject, encode(stored.record))
    with pytest.raises(QueueAwayError, match="another invocation"):
        await api.ingress.invocations.cancel("evil", "x")
    assert await api.state("one") == State.QUEUED


async def test_a_body_with_too_many_parts_is_not_read(api: Site) -> None:
    await api.ingress.acceptance.accept(asked())
    await turned(api, state=State.SUCCEEDED, attempt=1, bodyParts=10**6)
    with pytest.raises(QueueAwayError, match="1000000 parts"):
        await read(api)


class Kept:
    """Results that the broker has dropped already."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], StoredRecord] = {}
        self.parts: dict[int, bytes] = {}

    async def read(self, function: str, invocation: str) -> StoredRecord | None:
        return self.kept.get((function, invocation))

    async def read_part(self, stored: StoredRecord, part: int) -> bytes:
        if part not in self.parts:
            raise MissingError(f"{stored.record.invocationID}: no part {part}")
        return self.parts[part]


async def test_a_record_that_left_the_stream_comes_from_the_result_store(
    shared: Broker, api: Site
) -> None:
    await api.ingress.acceptance.accept(asked())
    ended_one = await turned(api, state=State.SUCCEEDED, attempt=1, bodyParts=2)
    kept = Kept()
    kept.kept[(FUNCTION, "one")] = ended_one
    kept.parts = {0: b'"a', 1: b'b"'}
    await api.bus.records.delete(ended_one)
    async with site(shared.url, api.bus.names.prefix, results=kept) as other:
        assert bytes((await read(other)).body) == b'"ab"'
        with pytest.raises(AlreadyFinishedError):
            await other.ingress.invocations.cancel(FUNCTION, "one")
        with pytest.raises(InvocationNotFoundError):
            await read(other, "two")


async def test_a_synchronous_call_returns_the_workers_answer(api: Site) -> None:
    async with working(api.bus, Ledger().handle):
        outcome = await call(api)
    assert (outcome.record.state, outcome.is_duplicate) == (State.SUCCEEDED, False)
    assert outcome.record.statusCode == 200


async def test_invocations_and_waits_are_counted_by_outcome(shared: Broker, api: Site) -> None:
    registry = Registry()
    async with (
        working(api.bus, Ledger().handle),
        site(shared.url, api.bus.names.prefix, meter=registry) as counted,
    ):
        await call(counted)
        await counted.ingress.acceptance.accept(asked("two"))
        await counted.ingress.acceptance.accept(asked("two"))
        with pytest.raises(InvocationConflictError):
            await counted.ingress.acceptance.accept(asked("two", payload=2))
    told = registry.text().decode().splitlines()
    invocations = "gpuruntime_serverless_invocations_total"
    for line in (
        f'{invocations}{{mode="sync",outcome="accepted"}} 1.0',
        f'{invocations}{{mode="async",outcome="accepted"}} 1.0',
        f'{invocations}{{mode="async",outcome="duplicate"}} 1.0',
        f'{invocations}{{mode="async",outcome="operation_conflict"}} 1.0',
        'gpuruntime_serverless_sync_wait_seconds_count{outcome="succeeded"} 1.0',
    ):
        assert line in told


async def test_an_invocation_that_a_replay_sent_runs_once(api: Site) -> None:
    """Its record has a later revision than the message names, so the worker reads it."""
    request, ledger = asked(), Ledger()
    function = await api.ingress.functions.find(FUNCTION)
    record = queued_record(request, function, now=wall_clock())
    await api.bus.records.write(record, expected=0)
    assert (await api.ingress.acceptance.accept(request)).is_duplicate
    async with working(api.bus, ledger.handle):
        assert (await ended(api.bus, "one")).state is State.SUCCEEDED
        await until_empty(api.bus)
    assert ledger.started == [("one", 1)]


async def test_two_calls_with_one_id_wait_for_one_run(api: Site) -> None:
    ledger = Ledger()
    async with working(api.bus, ledger.handle), asyncio.TaskGroup() as tasks:
        calls = [tasks.create_task(call(api)) for _ in range(2)]
    assert sorted(each.result().is_duplicate for each in calls) == [False, True]
    assert ledger.started == [("one", 1)]


async def test_the_callers_patience_ends_the_wait_and_a_replay_reads_the_result(
    api: Site,
) -> None:
    waiting = await call(api, waitSeconds=1)
    assert (waiting.record.state, waiting.position) == (State.QUEUED, 1)
    await turned(api, state=State.SUCCEEDED, attempt=1)
    assert (await call(api, waitSeconds=1)).record.state is State.SUCCEEDED


async def test_a_caller_without_patience_is_answered_at_once(api: Site) -> None:
    async with asyncio.timeout(3):
        assert (await call(api, waitSeconds=0)).record.state is State.QUEUED
    await turned(api, state=State.SUCCEEDED, attempt=1)
    assert (await call(api, waitSeconds=0)).record.state is State.SUCCEEDED


async def test_an_attempts_time_bounds_no_cold_start(api: Site) -> None:
    """The worker comes after the time of an attempt, and the call still succeeds."""
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(call(api, timeoutSeconds=1))
        await asyncio.sleep(1.5)
        async with working(api.bus, Ledger().handle):
            assert (await waiting).record.state is State.SUCCEEDED


async def test_an_attempt_that_takes_too_long_is_a_timeout_of_the_framework(api: Site) -> None:
    ledger = Ledger()
    ledger.gate.clear()
    async with working(api.bus, ledger.handle, max_attempts=1):
        record = (await call(api, timeoutSeconds=1)).record
    ends = (State.DEAD_LETTERED, FailureClass.FRAMEWORK_TIMEOUT)
    assert (record.state, record.failureClass) == ends


async def test_an_invocation_that_expires_during_a_wait_ends_it(api: Site) -> None:
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(call(api))
        await until_accepted(api)
        await turned(api, state=State.EXPIRED)
    assert waiting.result().record.state is State.EXPIRED


async def test_each_queued_invocation_has_its_position(api: Site) -> None:
    """A running one has none, and does not count."""
    for name in ("one", "two", "three"):
        await api.ingress.acceptance.accept(asked(name))
    names = ("one", "two", "three")
    assert [await position(api, name) for name in names] == [1, 2, 3]
    ledger = Ledger()
    ledger.gate.clear()
    worker = {"kind": "GPUUnit", "metadata": {"name": "w1"}, "spec": {"specName": "g1.1"}}
    path = GPU_UNITS.path(namespace=INSTANCE)
    api.cluster.call("POST", path, {"apiVersion": GPU_UNITS.api_version, **worker})
    async with working(api.bus, ledger.handle):
        await eventually(lambda: position(api, "two"), equals(1))
        assert [await position(api, name) for name in names] == [None, 1, 2]
        ledger.gate.set()
        await eventually(lambda: position(api, "three"), is_none)


async def test_a_queue_of_an_earlier_version_tells_positions_after_a_reconnect(api: Site) -> None:
    jetstream, name = api.bus.jetstream, api.bus.names.invocations
    config = (await jetstream.call(f"STREAM.INFO.{name}"))["config"]
    assert isinstance(config, dict)
    await jetstream.call(f"STREAM.UPDATE.{name}", {**config, "allow_direct": False})
    await api.ingress.acceptance.accept(asked("one"))
    assert await position(api, "one") is None
    [queue, *_] = declarations(api.bus.names, SMALL)
    await declare_stream(jetstream, queue)
    assert await position(api, "one") == 1


async def position(api: Site, name: str) -> int | None:
    return (await api.ingress.invocations.read(FUNCTION, name)).position


def is_none(value: object) -> bool:
    return value is None


async def test_a_queued_invocation_says_what_it_waits_for(api: Site) -> None:
    await api.ingress.acceptance.accept(asked())
    assert (await read(api)).waiting_for == WaitingFor(reason="not_scaled_yet", message=NOT_SCALED)
    lack = {"reason": "insufficient_capacity", "message": "no ready stock of g1.1"}
    path = GPU_UNITS.path(namespace=INSTANCE, name=f"unit-of-{FUNCTION}", subresource="status")
    api.cluster.call("PATCH", path, {"status": {"serverless": {"desiredWorkers": 1, **lack}}})
    await eventually(lambda: waits_for(api), equals(WaitingFor(**lack)))
    await turned(api, state=State.RUNNING, attempt=1)
    assert (await read(api)).waiting_for is None


async def waits_for(api: Site) -> WaitingFor | None:
    return (await read(api)).waiting_for


async def test_a_replay_of_an_expired_invocation_reads_its_expiry(api: Site) -> None:
    """A caller that was asked to repeat its request must reach an end."""
    await api.ingress.acceptance.accept(asked(mode="sync"))
    await turned(api, state=State.EXPIRED, failureClass=FailureClass.EXPIRED)
    outcome = await call(api)
    assert (outcome.record.state, outcome.is_duplicate) == (State.EXPIRED, True)


async def test_the_wait_for_a_disconnected_caller_ends(api: Site) -> None:
    there = asyncio.Event()
    there.set()
    request = asked(mode="sync")
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(api.ingress.invocations.call(request, is_wanted=there.is_set))
        await until_accepted(api)
        there.clear()
        async with asyncio.timeout(3):
            assert (await waiting).record.state is State.QUEUED
    assert await api.state("one") == State.QUEUED


async def test_a_call_that_outlives_its_broker_is_answered_after_its_restart(own: Broker) -> None:
    """Changes in between are missed; the record is read again on the new session."""
    async with site(own.url, "outlive") as api, asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(call(api))
        await until_accepted(api)
        own.kill()
        await eventually(lambda: api.ingress.queue.problem)
        own.start()
        await eventually(lambda: api.ingress.queue.problem, not_)
        await turned(api, state=State.SUCCEEDED)
        async with asyncio.timeout(5):
            assert (await waiting).record.state is State.SUCCEEDED


async def test_a_queued_invocation_never_starts_once_cancelled(api: Site) -> None:
    await api.ingress.acceptance.accept(asked())
    await api.ingress.invocations.cancel(FUNCTION, "one")
    assert await api.messages() == []
    ledger = Ledger()
    async with working(api.bus, ledger.handle):
        await api.ingress.acceptance.accept(asked("two"))
        await ended(api.bus, "two")
    assert ledger.started == [("two", 1)]
    record: Record = (await read(api)).record
    assert (record.state, record.failureClass) == (State.CANCELLED, FailureClass.CANCELLED)


async def test_a_cancelled_running_invocation_is_aborted(api: Site) -> None:
    ledger = Ledger()
    ledger.gate.clear()
    async with working(api.bus, ledger.handle) as worker:
        await api.ingress.acceptance.accept(asked())
        await eventually(lambda: ledger.starts)
        await api.ingress.invocations.cancel(FUNCTION, "one")
        await eventually(lambda: worker.busy, equals(0))
    assert (await read(api)).record.state is State.CANCELLED
    await until_empty(api.bus)


async def test_an_ended_invocation_cannot_be_cancelled(api: Site) -> None:
    async with working(api.bus, Ledger().handle):
        await call(api)
    with pytest.raises(AlreadyFinishedError, match="is succeeded already"):
        await api.ingress.invocations.cancel(FUNCTION, "one")
    assert (await read(api)).record.state is State.SUCCEEDED


async def test_one_of_many_cancels_wins(api: Site) -> None:
    await api.ingress.acceptance.accept(asked())

    async def cancel() -> bool:
        try:
            await api.ingress.invocations.cancel(FUNCTION, "one")
        except AlreadyFinishedError:
            return False
        return True

    async with asyncio.TaskGroup() as tasks:
        told = [tasks.create_task(cancel()) for _ in range(8)]
    assert sum(each.result() for each in told) == 1


async def test_nothing_is_cancelled_or_read_without_a_broker(own: Broker) -> None:
    async with site(own.url, "gone") as api:
        own.kill()
        await eventually(lambda: api.ingress.queue.problem)
        with pytest.raises(QueueAwayError):
            await read(api)
        with pytest.raises(QueueAwayError):
            await api.ingress.invocations.cancel(FUNCTION, "one")


async def listed(api: Site, *, limit: int = 2, **only: Any) -> list[str]:
    """Return the ids on all pages, in their order."""
    names: list[str] = []
    after = 0
    while True:
        page = await api.ingress.invocations.page(FUNCTION, limit=limit, after=after, **only)
        names += [record.invocationID for record in page.records]
        after = page.next
        if not after:
            return names


async def test_invocations_are_listed_in_the_order_of_their_latest_change(api: Site) -> None:
    for name in ("one", "two", "three", "four", "five"):
        await api.ingress.acceptance.accept(asked(name))
    await turned(api, "one", state=State.RUNNING)
    assert await listed(api) == ["two", "three", "four", "five", "one"]
    assert await listed(api, state="running") == ["one"]
    page = await api.ingress.invocations.page("another", limit=9, after=0)
    assert page.records == ()


async def test_an_invocation_of_an_earlier_tenant_of_the_name_is_not_listed(api: Site) -> None:
    await api.ingress.acceptance.accept(asked("ours"))
    await api.ingress.acceptance.accept(asked("theirs"))
    await turned(api, "ours", tenant="a")
    await turned(api, "theirs", tenant="b")
    assert await listed(api, tenants=frozenset({"a"})) == ["ours"]


async def test_a_record_that_is_not_one_is_left_out(api: Site) -> None:
    await api.ingress.acceptance.accept(asked("one"))
    subject = api.bus.names.state(FUNCTION, "broken")
    await api.bus.jetstream.publish(subject, b"{", message_id="broken")
    assert await listed(api) == ["one"]
