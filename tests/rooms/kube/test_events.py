"""Events are counted, limited in number, and never delay their caller."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import NotLeadingError, OutcomeUnknownError, UnreachableError
from gpuruntime.kube.events import (
    BURST,
    LARGEST_BACKLOG,
    LONGEST_MESSAGE_BYTES,
    SECONDS_PER_EVENT,
    EventRecorder,
    TokenBuckets,
    reference_to,
    shortened,
)
from gpuruntime.kube.transport import Request, Response
from gpuruntime.models.encoding import codec
from gpuruntime.models.kubernetes.cluster import ObjectReference
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from tests.rooms.kube.things import THINGS, ScriptedTransport, answer, failure

pytestmark = pytest.mark.looptime

START = datetime(2026, 1, 1, tzinfo=UTC)
ANVIL = reference_to(THINGS, ObjectMeta(namespace="lab", name="anvil", uid="u1"))


class Tally:
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def count(self, name: str, amount: float = 1, /, **labels: str) -> None:
        self.counts[":".join([name, *labels.values()])] += int(amount)

    def gauge(self, name: str, value: float, /, **labels: str) -> None:
        pass

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        pass


class EventServer:
    """A server that keeps Events under their guards; the given faults come first."""

    def __init__(self) -> None:
        self.events: dict[str, dict[str, Any]] = {}
        self.faults: list[Response | Exception] = []
        self.after_faults: list[Exception] = []
        self.requests: list[str] = []
        self.version = 0

    async def handle(self, request: Request) -> Response:
        self.requests.append(request.method)
        if self.faults:
            fault = self.faults.pop(0)
            if isinstance(fault, Exception):
                raise fault
            return fault
        response = self._write(request, codec.decode_object(request.body or b""))
        if self.after_faults:
            raise self.after_faults.pop(0)
        return response

    def _write(self, request: Request, body: dict[str, Any]) -> Response:
        name = (
            body["metadata"]["name"] if request.method == "POST" else request.path.split("/")[-1]
        )
        known = self.events.get(name)
        if request.method == "POST" and known is not None:
            return failure(409, "AlreadyExists")
        if request.method == "PATCH" and known is None:
            return failure(404, "NotFound")
        guard = body["metadata"].get("resourceVersion")
        if known is not None and guard != known["metadata"]["resourceVersion"]:
            return failure(409, "Conflict")
        self.version += 1
        metadata = {"namespace": "lab", "name": name, "resourceVersion": str(self.version)}
        self.events[name] = {**(known or {}), **body, "metadata": metadata}
        return answer(self.events[name])

    @property
    def only(self) -> dict[str, Any]:
        (event,) = self.events.values()
        return event


@asynccontextmanager
async def recording(
    server: EventServer, *, tally: Tally | None = None, once_seconds: int = 0
) -> AsyncIterator[EventRecorder]:
    loop = asyncio.get_running_loop()
    started = loop.time()
    recorder = EventRecorder(
        Client(ScriptedTransport(server.handle)),
        component="gpuruntime-manager",
        now=lambda: START + timedelta(seconds=loop.time() - started),
        rng=Random(1),
        meter=tally or Tally(),
        once_seconds=once_seconds,
    )
    async with asyncio.TaskGroup() as group:
        running = group.create_task(recorder.run())
        yield recorder
        await asyncio.sleep(0.01)
        running.cancel()


def other(name: str) -> ObjectReference:
    return ObjectReference(namespace="lab", name=name, uid=name)


async def test_an_event_names_object_reason_and_time() -> None:
    server = EventServer()
    async with recording(server) as recorder:
        recorder.record(ANVIL, "Struck", "it rang", is_warning=True)
    event = server.only
    assert event["involvedObject"] == {
        "apiVersion": "test.example/v1",
        "kind": "Thing",
        "namespace": "lab",
        "name": "anvil",
        "uid": "u1",
        "fieldPath": "",
    }
    assert (event["type"], event["reason"], event["message"]) == ("Warning", "Struck", "it rang")
    assert (event["count"], event["firstTimestamp"]) == (1, "2026-01-01T00:00:00Z")
    assert event["source"] == {"component": "gpuruntime-manager"}
    assert event["metadata"]["name"].startswith("anvil.")


async def test_equal_events_become_one_with_a_count() -> None:
    server = EventServer()
    async with recording(server) as recorder:
        for _ in range(5):
            recorder.record(ANVIL, "Struck", "it rang")
            await asyncio.sleep(60)
    assert (server.only["count"], server.only["lastTimestamp"]) == (5, "2026-01-01T00:04:00Z")
    assert server.requests == ["POST", *["PATCH"] * 4]


async def test_equal_events_that_are_pending_cost_one_request() -> None:
    server = EventServer()
    async with recording(server) as recorder:
        for _ in range(10):
            recorder.record(ANVIL, "Struck", "it rang")
    assert server.only["count"] == 10
    assert server.requests == ["POST"]


async def test_another_message_is_another_event() -> None:
    server = EventServer()
    async with recording(server) as recorder:
        recorder.record(ANVIL, "Struck", "it rang")
        recorder.record(ANVIL, "Struck", "it broke")
    assert sorted(event["message"] for event in server.events.values()) == ["it broke", "it rang"]


async def test_an_event_that_expired_on_the_server_is_created_again() -> None:
    server = EventServer()
    async with recording(server) as recorder:
        recorder.record(ANVIL, "Struck", "it rang")
        await asyncio.sleep(3600)
        server.events.clear()
        recorder.record(ANVIL, "Struck", "it rang")
    assert server.only["count"] == 1


async def test_an_event_changed_by_another_client_is_left_alone() -> None:
    server = EventServer()
    async with recording(server) as recorder:
        recorder.record(ANVIL, "Struck", "it rang")
        await asyncio.sleep(1)
        server.only["metadata"]["resourceVersion"] = "other"
        recorder.record(ANVIL, "Struck", "it rang")
    assert [event["count"] for event in server.events.values()] == [1, 1]


async def test_a_create_whose_answer_was_lost_is_not_repeated() -> None:
    server = EventServer()
    server.after_faults = [OutcomeUnknownError("no answer")]
    async with recording(server) as recorder:
        recorder.record(ANVIL, "Struck", "it rang")
        await asyncio.sleep(60)
    assert server.only["count"] == 1
    assert server.requests == ["POST", "POST"]


async def test_one_noisy_object_is_held_to_its_burst_and_others_are_not() -> None:
    server, tally = EventServer(), Tally()
    async with recording(server, tally=tally) as recorder:
        for number in range(BURST + 10):
            recorder.record(ANVIL, "Struck", f"blow {number}")
        recorder.record(other("quiet"), "Struck", "once")
    assert len(server.events) == BURST + 1
    assert tally.counts["events_dropped_total:rate"] == 10


async def test_a_noisy_object_may_record_again_after_a_while() -> None:
    server, tally = EventServer(), Tally()
    async with recording(server, tally=tally) as recorder:
        for number in range(BURST):
            recorder.record(ANVIL, "Struck", f"blow {number}")
        await asyncio.sleep(SECONDS_PER_EVENT)
        recorder.record(ANVIL, "Struck", "allowed")
        recorder.record(ANVIL, "Struck", "too much")
    messages = {event["message"] for event in server.events.values()}
    assert "allowed" in messages
    assert "too much" not in messages


async def test_a_backlog_beyond_its_bound_is_dropped_and_counted() -> None:
    server, tally = EventServer(), Tally()
    async with recording(server, tally=tally) as recorder:
        for number in range(LARGEST_BACKLOG + 7):
            recorder.record(other(f"thing-{number}"), "Struck", "it rang")
    assert len(server.events) == LARGEST_BACKLOG
    assert tally.counts["events_dropped_total:backlog"] == 7


@pytest.mark.parametrize(
    "fault",
    [
        UnreachableError("down"),
        failure(429, "TooManyRequests", retryAfterSeconds=20),
        failure(503, "ServiceUnavailable"),
    ],
    ids=["unreachable", "throttled", "unavailable"],
)
async def test_an_event_is_sent_after_a_passing_fault(fault: Response | Exception) -> None:
    server, tally = EventServer(), Tally()
    server.faults = [fault] * 3
    async with recording(server, tally=tally) as recorder:
        recorder.record(ANVIL, "Struck", "it rang")
        await asyncio.sleep(120)
    assert server.only["count"] == 1
    assert tally.counts == {"events_sent_total": 1}


async def test_an_event_is_given_up_if_the_fault_stays() -> None:
    server, tally = EventServer(), Tally()
    server.faults = [UnreachableError("down")] * 5
    async with recording(server, tally=tally) as recorder:
        recorder.record(ANVIL, "Struck", "it rang")
        recorder.record(other("next"), "Struck", "it rang")
        await asyncio.sleep(120)
    assert server.only["involvedObject"]["name"] == "next"
    assert tally.counts["events_dropped_total:unavailable"] == 1


@pytest.mark.parametrize(
    "refusal",
    [failure(403, "Forbidden"), failure(422, "Invalid"), NotLeadingError("lost")],
    ids=["forbidden", "invalid", "not leading"],
)
async def test_a_refused_event_is_dropped_at_once(refusal: Response | Exception) -> None:
    server, tally = EventServer(), Tally()
    server.faults = [refusal]
    async with recording(server, tally=tally) as recorder:
        recorder.record(ANVIL, "Struck", "it rang")
    assert server.requests == ["POST"]
    assert tally.counts == {"events_dropped_total:refused": 1}


async def test_events_still_pending_at_the_stop_are_counted_as_dropped() -> None:
    server, tally = EventServer(), Tally()
    server.faults = [UnreachableError("down")] * 5
    async with recording(server, tally=tally) as recorder:
        for number in range(4):
            recorder.record(other(f"thing-{number}"), "Struck", "it rang")
    assert tally.counts == {"events_dropped_total:stopped": 4}


def test_a_long_message_is_cut_between_characters() -> None:
    message = shortened("ü" * LONGEST_MESSAGE_BYTES)
    assert len(message.encode()) <= LONGEST_MESSAGE_BYTES
    assert message.endswith("ü…")
    assert shortened("as it is") == "as it is"


async def test_settling_waits_for_recorded_events_and_no_longer() -> None:
    server = EventServer()
    loop = asyncio.get_running_loop()
    async with recording(server) as recorder:
        recorder.record(ANVIL, "Struck", "it rang")
        await recorder.settle(60.0)
        assert server.only["count"] == 1
        began = loop.time()
        await recorder.settle(60.0)
        assert loop.time() == began


async def test_settling_ends_even_if_nothing_can_be_sent() -> None:
    server = EventServer()
    server.faults = [UnreachableError("no connection")] * 10
    loop = asyncio.get_running_loop()
    async with recording(server) as recorder:
        recorder.record(ANVIL, "Struck", "it rang")
        began = loop.time()
        await recorder.settle(2.0)
        assert loop.time() - began == pytest.approx(2.0)


def test_a_bucket_gives_its_burst_and_then_one_token_a_period() -> None:
    buckets = TokenBuckets(burst=3, seconds_per_token=10.0, capacity=10)
    assert [buckets.take("a", 0.0) for _ in range(4)] == [True, True, True, False]
    assert [buckets.take("a", moment) for moment in (9.0, 10.0, 11.0)] == [False, True, False]


def test_a_bucket_never_holds_more_than_its_burst() -> None:
    buckets = TokenBuckets(burst=2, seconds_per_token=1.0, capacity=10)
    assert [buckets.take("a", 1e6) for _ in range(3)] == [True, True, False]


def test_the_bucket_unused_for_longest_makes_room() -> None:
    buckets = TokenBuckets(burst=1, seconds_per_token=1e9, capacity=2)
    for key in ("a", "b", "a", "c"):
        buckets.take(key, 0.0)
    assert [buckets.take(key, 0.0) for key in ("a", "b")] == [False, True]


async def test_two_processes_send_one_event_of_a_reason_in_a_time_together() -> None:
    server = EventServer()
    async with (
        recording(server, once_seconds=60) as first,
        recording(server, once_seconds=60) as second,
    ):
        for number in range(3):
            first.record(other("unit"), "Opened", f"message {number}")
            second.record(other("unit"), "Opened", f"another {number}")
        second.record(other("unit"), "Refused", "why")
        await asyncio.sleep(30)
        assert sorted(each["reason"] for each in server.events.values()) == ["Opened", "Refused"]
        assert set(server.requests) == {"POST"}
        await asyncio.sleep(31)
        second.record(other("unit"), "Opened", "message")
        await asyncio.sleep(1)
        first.record(other("unit"), "Opened", "message")
        await asyncio.sleep(1)
    assert [each["reason"] for each in server.events.values()].count("Opened") == 2
