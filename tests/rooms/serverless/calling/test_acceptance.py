"""Accepting invocations: exactly one message for a record, despite replays and refusals."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from itertools import count, pairwise
from operator import not_
from random import Random
from typing import Any

import attrs
import msgspec
import pytest
import pytest_asyncio

from gpuruntime.bus.errors import MissingError
from gpuruntime.bus.messages import Invocation
from gpuruntime.bus.provisioning import declare_stream
from gpuruntime.bus.records import StoredRecord
from gpuruntime.bus.session import Message
from gpuruntime.bus.streams import declarations
from gpuruntime.models.kinds.invocations import State
from gpuruntime.models.requests.invocations import Invoke
from gpuruntime.serverless.calling.acceptance import Acceptance, Accepted, queued_record
from gpuruntime.serverless.calling.requests import MOST_PAYLOAD_BYTES
from gpuruntime.serverless.calling.wakeups import APART_SECONDS
from gpuruntime.serverless.errors import (
    FunctionNotFoundError,
    InvocationConflictError,
    PayloadTooLargeError,
    QueueAwayError,
    QueueFullError,
    UnknownOutcomeError,
)
from tests.eventually import eventually
from tests.rooms.bus.broker import FUNCTION, SMALL, Broker, broker
from tests.rooms.operations.cluster import Cluster
from tests.rooms.serverless.calling.ingress import (
    Site,
    asked,
    declare_function,
    queue_of,
    site,
    wall_clock,
)

PREFIXES = count(1)


@pytest.fixture
def prefix() -> str:
    return f"a{next(PREFIXES)}"


@pytest_asyncio.fixture
async def api(shared: Broker, prefix: str) -> AsyncIterator[Site]:
    async with site(shared.url, prefix) as made:
        yield made


async def accept(api: Site, name: str = "one", **members: Any) -> Accepted:
    return await api.ingress.acceptance.accept(asked(name, **members))


async def queue_alone(api: Site, request: Invoke) -> StoredRecord:
    """Leave the state of a replica that ended between the record and its message."""
    function = await api.ingress.functions.find(FUNCTION)
    record = queued_record(request, function, now=wall_clock())
    return await api.bus.records.write(record, expected=0)


async def fill_records(api: Site) -> None:
    """Limit the stream of records too narrowly, as an operator might."""
    verb = f"STREAM.INFO.{api.bus.names.states}"
    info: Any = await api.bus.jetstream.call(verb)
    settings = {**info["config"], "max_msgs": info["state"]["messages"]}
    await api.bus.jetstream.call(f"STREAM.UPDATE.{api.bus.names.states}", settings)


async def test_the_record_exists_and_the_message_names_its_revision(api: Site) -> None:
    accepted = await accept(api, headers={"X-A": "b"}, attributes={"k": "v"})
    stored = await api.bus.records.read(FUNCTION, "one")
    assert stored is not None
    assert stored.record == accepted.record
    assert stored.record.state is State.QUEUED
    ((sequence, message),) = await api.messages()
    assert (accepted.sequence, accepted.is_duplicate) == (sequence, False)
    declared = await api.ingress.functions.find(FUNCTION)
    assert declared.uid
    assert message == Invocation(
        invocationID="one",
        serverlessRequestID=FUNCTION,
        declarer=declared.uid,
        headers={"X-A": "b"},
        attributes={"k": "v"},
        payload=msgspec.Raw(b'{"n":1}'),
        requestHash=stored.record.requestHash,
        revision=stored.revision,
        acceptedAt=stored.record.acceptedAt,
        deadlineAt=stored.record.deadlineAt,
    )


@pytest.mark.parametrize(
    ("members", "seconds"),
    [
        ({}, 3600),
        ({"mode": "sync"}, 3600),
        ({"lifeSeconds": 7}, 7),
        ({"mode": "sync", "lifeSeconds": 86_400}, 86_400),
        ({"timeoutSeconds": 7}, 3600),
        ({"mode": "sync", "waitSeconds": 7}, 3600),
    ],
    ids=["asynchronous", "synchronous", "short", "longest", "an attempt's time", "patience"],
)
async def test_the_lifetime_is_the_requested_one_or_an_hour(
    api: Site, members: dict[str, Any], seconds: int
) -> None:
    record = (await accept(api, **members)).record
    assert record.deadlineAt - record.acceptedAt == timedelta(seconds=seconds)


async def test_a_repeated_request_is_a_duplicate_with_one_message(api: Site) -> None:
    first = await accept(api)
    again = await accept(api)
    assert (again.is_duplicate, again.sequence) == (True, first.sequence)
    assert again.record == first.record
    assert len(await api.messages()) == 1


async def test_sixteen_equal_requests_at_once_are_one_invocation(api: Site) -> None:
    async with asyncio.TaskGroup() as tasks:
        sent = [tasks.create_task(accept(api)) for _ in range(16)]
    told = [each.result() for each in sent]
    assert sum(not each.is_duplicate for each in told) == 1
    assert len({each.sequence for each in told}) == 1
    assert len(await api.messages()) == 1


@pytest.mark.parametrize(
    "members",
    [{"payload": 2}, {"mode": "sync"}, {"timeoutSeconds": 9}, {"lifeSeconds": 9}],
    ids=str,
)
async def test_an_id_is_rejected_for_another_request(api: Site, members: dict[str, Any]) -> None:
    await accept(api)
    with pytest.raises(InvocationConflictError, match="invocation one of function echo"):
        await accept(api, **members)
    assert len(await api.messages()) == 1


async def test_two_functions_may_use_the_same_id(api: Site) -> None:
    declare_function(api.cluster, "other")
    await eventually(lambda: api.replica.units.store.by_index("function", "other"))
    await accept(api)
    other = await accept(api, serverlessRequestID="other", payload=2)
    assert not other.is_duplicate
    assert len(await api.messages("other")) == 1


@pytest.mark.parametrize(
    "state", [State.QUEUED, State.RUNNING, State.SUCCEEDED, State.DEAD_LETTERED]
)
async def test_a_replay_of_a_started_invocation_reports_it_and_sends_nothing(
    api: Site, state: State
) -> None:
    """This includes an invocation that waits for its next attempt."""
    request = asked()
    stored = await queue_alone(api, request)
    moved = attrs.evolve(stored.record, state=state, attempt=1, sequence=77)
    await api.bus.records.write(moved, expected=stored.revision)
    again = await api.ingress.acceptance.accept(request)
    assert (again.is_duplicate, again.sequence, again.record.state) == (True, 77, state)
    assert await api.messages() == []


async def test_a_replay_sends_the_message_that_was_never_sent(api: Site) -> None:
    request = asked()
    stored = await queue_alone(api, request)
    again = await api.ingress.acceptance.accept(request)
    ((sequence, message),) = await api.messages()
    assert (again.is_duplicate, again.sequence) == (True, sequence)
    assert message.deadlineAt == stored.record.deadlineAt


async def test_a_record_that_a_replay_has_sent_is_not_taken_back(api: Site) -> None:
    """The first sender found the queue full, and takes its record back slowly."""
    request = asked()
    stored = await queue_alone(api, request)
    await api.ingress.acceptance.accept(request)
    with pytest.raises(MissingError):
        await api.bus.records.delete(stored)
    assert await api.state("one") == State.QUEUED


async def test_a_full_queue_leaves_nothing_of_a_rejected_invocation(
    shared: Broker, prefix: str
) -> None:
    narrow = attrs.evolve(SMALL, most_queued_per_function=1)
    async with site(shared.url, prefix, streams=narrow) as api:
        first = await accept(api)
        with pytest.raises(QueueFullError):
            await accept(api, "two")
        assert await api.state("two") == ""
        await api.bus.jetstream.delete(api.bus.names.invocations, first.sequence)
        assert not (await accept(api, "two")).is_duplicate


async def test_a_full_stream_of_records_is_a_full_queue(api: Site) -> None:
    await accept(api)
    await fill_records(api)
    with pytest.raises(QueueFullError, match="function echo is full"):
        await accept(api, "two")
    assert await api.state("two") == ""
    assert len(await api.messages()) == 1


async def test_a_replay_rejected_by_a_full_queue_takes_nothing_back(
    shared: Broker, prefix: str
) -> None:
    narrow = attrs.evolve(SMALL, most_queued_per_function=1)
    async with site(shared.url, prefix, streams=narrow) as api:
        await queue_alone(api, asked("two"))
        await accept(api)
        with pytest.raises(QueueFullError):
            await accept(api, "two")
        assert await api.state("two") == State.QUEUED


async def test_a_payload_above_the_limit_is_rejected_and_leaves_nothing(api: Site) -> None:
    with pytest.raises(PayloadTooLargeError, match=str(MOST_PAYLOAD_BYTES)):
        await accept(api, payload=[1e15] * 100_000)
    assert await api.state("one") == ""


async def test_a_payload_above_the_brokers_limit_leaves_nothing() -> None:
    with broker("max_payload: 64KB") as small:
        async with site(small.url, "small") as api:
            with pytest.raises(PayloadTooLargeError, match="max_payload"):
                await accept(api, payload="x" * 100_000)
            assert await api.state("one") == ""


async def test_an_unknown_function_is_rejected_and_nothing_is_written(api: Site) -> None:
    with pytest.raises(FunctionNotFoundError, match="function nobody does not exist"):
        await accept(api, serverlessRequestID="nobody")
    assert await api.state("one", "nobody") == ""


async def test_a_function_created_by_another_replica_is_found(shared: Broker, prefix: str) -> None:
    cluster = Cluster()
    async with (
        site(shared.url, prefix, cluster=cluster, watch_lag=lambda: 60.0) as slow,
        site(shared.url, prefix, cluster=cluster) as quick,
    ):
        await quick.replica.create("make", name="fn", serverless={"requestID": FUNCTION})
        assert not (await accept(slow)).is_duplicate


async def test_a_terminating_function_accepts_nothing(api: Site) -> None:
    path = "/apis/runtime.lokiwager.io/v1alpha1/namespaces/runtime-instance/gpuunits/unit-of-echo"
    api.cluster.call("PATCH", path, {"metadata": {"finalizers": ["example.org/stay"]}})
    api.cluster.call("DELETE", path)
    (unit,) = api.replica.units.store.values()
    await eventually(lambda: api.replica.units.store.get(unit.metadata.key) != unit)
    with pytest.raises(FunctionNotFoundError):
        await accept(api)


async def test_without_a_broker_acceptance_fails_at_once_and_recovers_with_it(own: Broker) -> None:
    async with site(own.url, "away") as api:
        own.kill()
        await eventually(lambda: api.ingress.queue.problem)
        with pytest.raises(QueueAwayError, match="cannot be reached"):
            async with asyncio.timeout(1):
                await accept(api)
        own.start()
        await eventually(lambda: api.ingress.queue.problem, not_)
        assert not (await accept(api)).is_duplicate


async def test_streams_that_the_broker_lost_are_created_again(own: Broker) -> None:
    async with site(own.url, "lost") as api:
        for stream in (api.bus.names.invocations, api.bus.names.states):
            await api.bus.jetstream.call(f"STREAM.DELETE.{stream}")
        own.kill()
        own.start()
        await eventually(lambda: api.ingress.queue.problem, not_)
        assert not (await accept(api)).is_duplicate


async def test_a_request_with_an_unknown_outcome_can_be_repeated(api: Site) -> None:
    """The stream of messages is missing for a while, so publishes have no responder."""
    queue, names = api.ingress.queue, api.bus.names
    hasty = Acceptance(
        queue,
        api.ingress.functions,
        api.ingress.wakes,
        now=wall_clock,
        rng=Random(1),
        send_seconds=0.3,
    )
    await api.bus.jetstream.call(f"STREAM.DELETE.{names.invocations}")
    with pytest.raises(UnknownOutcomeError, match="invocation one: it may be queued or not"):
        await hasty.accept(asked())
    assert await api.state("one") == State.QUEUED
    for declaration in declarations(names, SMALL):
        await declare_stream(api.bus.jetstream, declaration)
    assert (await hasty.accept(asked())).is_duplicate
    assert len(await api.messages()) == 1


async def test_an_acceptance_takes_no_longer_than_the_requested_lifetime(own: Broker) -> None:
    async with site(own.url, "slow") as api:
        own.pause()
        try:
            with pytest.raises(UnknownOutcomeError, match=r"invocation one: .* 1 s"):
                async with asyncio.timeout(3):
                    await accept(api, mode="sync", lifeSeconds=1)
        finally:
            own.resume()


async def test_another_wait_is_the_same_request(api: Site) -> None:
    await accept(api, mode="sync", waitSeconds=0)
    assert (await accept(api, mode="sync", waitSeconds=300)).is_duplicate


async def test_the_message_has_the_time_of_an_attempt(api: Site) -> None:
    await accept(api, timeoutSeconds=9)
    await accept(api, name="two")
    assert [each.timeoutSeconds for _, each in await api.messages()] == [9, 0]


@pytest.mark.serverless
async def test_a_request_whose_record_write_lost_its_answer_can_be_repeated(own: Broker) -> None:
    async with site(own.url, "lost") as api:
        own.pause()
        try:
            request = asked(None)
            named = api.ingress.acceptance.named(request)
            with pytest.raises(UnknownOutcomeError, match=named.invocationID):
                await api.ingress.acceptance.accept(named)
        finally:
            own.resume()
        await eventually(lambda: api.ingress.queue.problem, not_)
        await api.ingress.acceptance.accept(named)
        assert len(await api.messages()) == 1


async def test_serverless_that_is_off_names_the_setting_that_enables_it() -> None:
    queue = queue_of("", "off", is_on=False)
    with pytest.raises(QueueAwayError, match=r"set nats\.url"):
        queue.demand()


async def test_wake_ups_are_sent_at_once_and_then_at_intervals(api: Site) -> None:
    heard: list[float] = []
    loop = asyncio.get_running_loop()

    def receive(_: Message) -> None:
        heard.append(loop.time())

    async with api.bus.connection.listening(api.bus.names.wake(FUNCTION), receive):
        for name in range(20):
            await accept(api, f"n{name}")
        await eventually(lambda: bool(heard) and loop.time() - heard[-1] > 3 * APART_SECONDS)
    apart = [later - sooner for sooner, later in pairwise(heard)]
    assert all(each > APART_SECONDS / 2 for each in apart), apart
    assert len(heard) < 20
