"""Invocations over HTTP with a real broker: the answers and their codes."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from itertools import count
from operator import not_
from typing import Any

import attrs
import msgspec
import pytest
import pytest_asyncio

from gpuruntime.bus.messages import Invocation, Record, read
from gpuruntime.models.kinds.invocations import FailureClass, State
from gpuruntime.serverless.broker import BrokerLink
from tests.eventually import eventually
from tests.rooms.api.service import INVOCATIONS, WELL, Answer, Service, service
from tests.rooms.bus.broker import FUNCTION, SMALL, Broker
from tests.rooms.bus.fixtures import own, shared
from tests.rooms.operations.cluster import Cluster
from tests.rooms.serverless.calling.ingress import declare_function, queue_of, wall_clock
from tests.row_ids import in_words

__all__ = ["own", "shared"]

PREFIXES = count(1)
LETTERS = "/api/v1/serverless/dead-letters"
FUNCTIONS = "/api/v1/serverless/functions"
ONE = f"{INVOCATIONS}/one?serverlessRequestID={FUNCTION}"


@attrs.frozen(kw_only=True)
class Site:
    """The API, and its queue, which the tests use in place of a worker."""

    api: Service
    queue: BrokerLink

    async def invoke(self, name: str = "one", **members: object) -> Answer:
        body = {"invocationID": name, "serverlessRequestID": FUNCTION, "payload": 1, **members}
        return await self.api.call("POST", INVOCATIONS, body)

    async def turn(self, name: str = "one", **changes: Any) -> Record:
        """Change the record as a worker would."""
        stored = await self.queue.records.read(FUNCTION, name)
        assert stored is not None
        changed = attrs.evolve(stored.record, **changes)
        await self.queue.records.write(changed, expected=stored.revision)
        return changed

    async def succeed(self, name: str = "one", body: bytes = b'{"a":1}') -> None:
        await self.turn(
            name,
            state=State.SUCCEEDED,
            attempt=1,
            workerName="w1",
            statusCode=201,
            contentType="application/json",
            headers={"X-A": "b"},
            body=msgspec.Raw(body),
            startedAt=wall_clock(),
            completedAt=wall_clock(),
        )

    async def until_queued(self, name: str = "one") -> None:
        await eventually(lambda: self.queue.records.read(FUNCTION, name))


@pytest_asyncio.fixture
async def site(shared: Broker) -> AsyncIterator[Site]:
    cluster = Cluster()
    declare_function(cluster)
    queue = queue_of(shared.url, f"h{next(PREFIXES)}", streams=SMALL)
    async with (
        service(cluster, queue=queue, now=wall_clock) as api,
        asyncio.TaskGroup() as tasks,
    ):
        running = tasks.create_task(queue.run())
        await eventually(lambda: queue.problem, not_)
        yield Site(api=api, queue=queue)
        running.cancel()


async def test_an_invocation_is_accepted_once_and_then_replayed(site: Site) -> None:
    first = await site.invoke()
    assert first.status == 202
    data = first.data
    assert datetime.fromisoformat(data.pop("acceptedAt")).tzinfo
    assert data == {
        "invocationID": "one",
        "serverlessRequestID": FUNCTION,
        "mode": "async",
        "subject": site.queue.names.invoke(FUNCTION),
        "stream": site.queue.names.invocations,
        "sequence": 1,
        "duplicate": False,
    }
    again = await site.invoke()
    assert (again.status, again.data["duplicate"], again.data["sequence"]) == (200, True, 1)
    assert again.headers["Idempotent-Replay"] == "true"


async def test_a_missing_id_is_generated(site: Site) -> None:
    body = {"serverlessRequestID": FUNCTION}
    told = [await site.api.call("POST", INVOCATIONS, body) for _ in range(2)]
    assert [each.status for each in told] == [202, 202]
    assert told[0].data["invocationID"] != told[1].data["invocationID"]


async def test_the_same_id_with_another_body_is_a_conflict(site: Site) -> None:
    await site.invoke()
    answer = await site.invoke(payload=2)
    assert (answer.status, answer.code) == (409, "operation_conflict")


async def test_an_undeclared_function_is_not_found(site: Site) -> None:
    answer = await site.invoke(serverlessRequestID="nobody")
    assert (answer.status, answer.code) == (404, "function_not_found")


async def test_a_payload_that_grows_above_the_limit_is_too_large(site: Site) -> None:
    numbers = ",".join(["1e15"] * 100_000)
    body = f'{{"serverlessRequestID": "{FUNCTION}", "payload": [{numbers}]}}'
    answer = await site.api.call("POST", INVOCATIONS, data=body.encode())
    assert (answer.status, answer.code) == (413, "body_too_large")


async def test_an_invocation_is_read_in_its_present_state(site: Site) -> None:
    await site.invoke()
    queued = await site.api.call("GET", ONE)
    assert (queued.status, queued.data["state"], queued.data["attempt"]) == (200, "queued", 0)
    assert (queued.data["statusCode"], queued.data["body"]) == (None, None)
    await site.succeed()
    ended = (await site.api.call("GET", ONE)).data
    told = {name: ended[name] for name in ("state", "attempt", "workerName", "statusCode", "body")}
    assert told == {
        "state": "succeeded",
        "attempt": 1,
        "workerName": "w1",
        "statusCode": 201,
        "body": {"a": 1},
    }
    assert (ended["headers"], ended["contentType"]) == ({"X-A": "b"}, "application/json")


@pytest.mark.parametrize("name", ["two", "a.b", "a*", "a b", "x" * 256], ids=in_words)
@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_an_unknown_invocation_is_not_found(site: Site, method: str, name: str) -> None:
    await site.invoke()
    answer = await site.api.call(method, f"{INVOCATIONS}/{name}?serverlessRequestID={FUNCTION}")
    assert (answer.status, answer.code) == (404, "invocation_not_found")
    other = await site.api.call(method, f"{INVOCATIONS}/one?serverlessRequestID=other")
    assert (other.status, other.code) == (404, "invocation_not_found")


async def test_a_synchronous_call_is_answered_with_its_result(site: Site) -> None:
    async with asyncio.TaskGroup() as tasks:
        call = tasks.create_task(site.invoke(mode="sync"))
        await site.until_queued()
        await site.succeed()
    answer = call.result()
    assert (answer.status, answer.headers["Idempotent-Replay"]) == (200, "false")
    assert (answer.data["state"], answer.data["body"]) == ("succeeded", {"a": 1})
    again = await site.invoke(mode="sync")
    assert (again.status, again.headers["Idempotent-Replay"]) == (200, "true")
    assert again.data == answer.data


async def test_a_synchronous_call_that_takes_too_long_leaves_its_result_to_be_read(
    site: Site,
) -> None:
    late = await site.invoke(mode="sync", waitSeconds=1)
    shown = (await site.api.call("GET", ONE)).data
    assert (late.status, late.headers["Idempotent-Replay"]) == (202, "false")
    assert late.data == shown
    assert (shown["state"], shown["position"]) == ("queued", 1)
    assert shown["waitingFor"]["reason"] == "not_scaled_yet"
    await site.succeed()
    assert (await site.api.call("GET", ONE)).data["state"] == "succeeded"
    again = await site.invoke(mode="sync", waitSeconds=1)
    assert (again.status, again.data["body"]) == (200, {"a": 1})
    assert (again.data["position"], again.data["waitingFor"]) == (None, None)


async def test_an_invocation_that_expires_during_a_call_is_shown_to_a_retry(
    site: Site,
) -> None:
    async with asyncio.TaskGroup() as tasks:
        call = tasks.create_task(site.invoke(mode="sync"))
        await site.until_queued()
        await site.turn(state=State.EXPIRED, failureClass=FailureClass.EXPIRED)
    assert (call.result().status, call.result().data["state"]) == (200, "expired")
    again = await site.invoke(mode="sync")
    assert (again.status, again.headers["Idempotent-Replay"]) == (200, "true")
    assert (again.data["state"], again.data["failureClass"]) == ("expired", "expired")


async def test_a_stopping_process_accepts_no_invocations(site: Site) -> None:
    site.api.connection = attrs.evolve(WELL, is_stopping=True)
    for mode in ("async", "sync"):
        answer = await site.invoke(mode=mode)
        assert (answer.status, answer.code) == (503, "service_unavailable")
    assert await site.queue.records.read(FUNCTION, "one") is None


async def test_cancelling_a_queued_invocation_deletes_its_message(site: Site) -> None:
    await site.invoke()
    assert (await site.api.call("DELETE", ONE)).status == 204
    read_again = (await site.api.call("GET", ONE)).data
    assert (read_again["state"], read_again["failureClass"]) == ("cancelled", "cancelled")
    assert read_again["completedAt"]
    names = site.queue.names
    assert await site.queue.jetstream.following(names.invocations, names.invoke(FUNCTION)) is None


@pytest.mark.parametrize(
    "state", [State.SUCCEEDED, State.FAILED, State.CANCELLED, State.DEAD_LETTERED, State.EXPIRED]
)
async def test_an_ended_invocation_cannot_be_cancelled(site: Site, state: State) -> None:
    await site.invoke()
    await site.turn(state=state)
    answer = await site.api.call("DELETE", ONE)
    assert (answer.status, answer.code) == (409, "already_finished")
    assert str(state) in answer.body["error"]["message"]
    assert (await site.api.call("GET", ONE)).data["state"] == state


async def test_a_redrive_or_a_discard_of_an_unknown_dead_letter_is_not_found(site: Site) -> None:
    for name in ("dl-" + "0" * 24, "x", "dl-*", "a.b"):
        for method, path in (("POST", f"{name}/redrive"), ("DELETE", name)):
            answer = await site.api.call(method, f"{LETTERS}/{path}")
            assert (answer.status, answer.code) == (404, "dead_letter_not_found")


async def test_functions_are_listed_with_their_queue_depth(site: Site) -> None:
    for name in ("one", "two"):
        await site.invoke(name)
    answer = await site.api.call("GET", FUNCTIONS)
    (function,) = answer.data
    assert answer.body["next"] == ""
    assert (function["serverlessRequestID"], function["unitName"]) == (FUNCTION, "unit-of-echo")
    assert (function["queueDepth"], function["running"]) == (2, 0)
    counts = ("desired", "ready", "busy", "draining", "outdated")
    assert function["workers"] == dict.fromkeys(counts, 0)


async def test_a_full_queue_is_429_with_a_retry_after(shared: Broker) -> None:
    cluster = Cluster()
    declare_function(cluster)
    narrow = attrs.evolve(SMALL, most_queued_per_function=1)
    queue = queue_of(shared.url, f"h{next(PREFIXES)}", streams=narrow)
    async with (
        service(cluster, queue=queue, now=wall_clock) as api,
        asyncio.TaskGroup() as tasks,
    ):
        running = tasks.create_task(queue.run())
        await eventually(lambda: queue.problem, not_)
        site = Site(api=api, queue=queue)
        assert (await site.invoke()).status == 202
        full = await site.invoke("two")
        assert (full.status, full.code) == (429, "queue_full")
        assert int(full.headers["Retry-After"]) > 0
        assert await queue.records.read(FUNCTION, "two") is None
        running.cancel()


async def test_a_payload_of_any_unicode_reaches_the_queue_as_it_was(site: Site) -> None:
    payload = {"ключ": ["\U0001f600", "\u0000", 10**19, 1e-7, None, True]}
    await site.invoke(payload=payload)
    names = site.queue.names
    found = await site.queue.jetstream.following(names.invocations, names.invoke(FUNCTION))
    assert found is not None
    assert msgspec.json.decode(bytes(read(found.data, Invocation).payload)) == payload


async def test_a_failed_synchronous_call_returns_its_failure(site: Site) -> None:
    async with asyncio.TaskGroup() as tasks:
        call = tasks.create_task(site.invoke(mode="sync"))
        await site.until_queued()
        await site.turn(
            state=State.FAILED, failureClass=FailureClass.NO_WORKER_TEMPLATE, error="gone"
        )
    answer = call.result()
    assert (answer.status, answer.data["failureClass"]) == (200, "no_worker_template")
    assert answer.data["error"] == {"type": "", "message": "gone", "traceback": ""}


async def test_invocations_are_listed_without_their_answers(site: Site) -> None:
    await site.invoke("one")
    await site.invoke("two")
    await site.succeed("one")
    listed = await site.api.call("GET", f"{INVOCATIONS}?serverlessRequestID={FUNCTION}&limit=1")
    assert [each["invocationID"] for each in listed.data] == ["two"]
    cursor = listed.body["next"]
    rest = await site.api.call(
        "GET", f"{INVOCATIONS}?serverlessRequestID={FUNCTION}&cursor={cursor}"
    )
    ((one,), following) = rest.data, rest.body["next"]
    assert (one["state"], one["statusCode"], "body" in one, following) == (
        "succeeded",
        201,
        False,
        "",
    )
    query = f"serverlessRequestID={FUNCTION}&state=queued"
    queued = await site.api.call("GET", f"{INVOCATIONS}?{query}")
    assert [each["invocationID"] for each in queued.data] == ["two"]
    bad = await site.api.call("GET", f"{INVOCATIONS}?state=lost")
    assert bad.fields == ["serverlessRequestID", "state"]


async def test_a_function_is_read_by_its_name(site: Site) -> None:
    found = await site.api.call("GET", f"{FUNCTIONS}/{FUNCTION}")
    assert (found.status, found.data["serverlessRequestID"]) == (200, FUNCTION)
    missing = await site.api.call("GET", f"{FUNCTIONS}/nobody")
    assert (missing.status, missing.code) == (404, "function_not_found")
