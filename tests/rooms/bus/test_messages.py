from datetime import UTC, datetime

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.bus.errors import MalformedMessageError
from gpuruntime.bus.messages import (
    NEVER_TAKEN,
    DeadLetter,
    Invocation,
    Record,
    encode,
    expired,
    read,
    read_invocation,
)
from gpuruntime.models.kinds.invocations import FailureClass, State

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
INVOCATION = Invocation(
    invocationID="one",
    serverlessRequestID="echo",
    payload=msgspec.Raw(b'{"a":[1,2.5,null]}'),
    headers={"X": "y"},
    revision=7,
    acceptedAt=NOW,
    deadlineAt=NOW,
)
RECORD = Record(
    invocationID="one",
    serverlessRequestID="echo",
    state=State.RUNNING,
    attempt=2,
    sequence=9,
    acceptedAt=NOW,
    deadlineAt=NOW,
    startedAt=NOW,
)


def test_an_invocation_keeps_its_payload_byte_for_byte() -> None:
    again = read_invocation(encode(INVOCATION), function="echo")
    assert bytes(again.payload) == b'{"a":[1,2.5,null]}'
    assert again == INVOCATION


def test_a_record_is_decoded_as_it_was_encoded() -> None:
    assert read(encode(RECORD), Record) == RECORD


def test_an_expired_record_says_whether_a_worker_ever_started_it() -> None:
    queued = attrs.evolve(RECORD, state=State.QUEUED, attempt=0)
    assert expired(queued, NOW).error == NEVER_TAKEN
    assert expired(RECORD, NOW).error == "the deadline has passed"
    assert expired(attrs.evolve(RECORD, error="status 500"), NOW).error == "status 500"


def test_the_words_on_the_wire_are_those_of_the_contract() -> None:
    wire = msgspec.json.decode(encode(RECORD))
    assert wire["state"] == "running"
    assert wire["attempt"] == 2
    assert wire["acceptedAt"] == "2026-01-02T03:04:05.678901Z"
    assert {
        "workerName", "statusCode", "contentType", "headers", "body", "error", "failureClass",
        "startedAt", "completedAt", "invocationID", "serverlessRequestID",
    } <= wire.keys()  # fmt: skip
    assert [each.value for each in FailureClass] == [
        "malformed_message", "no_worker_template", "insufficient_capacity", "activation_timeout",
        "framework_error", "framework_timeout", "worker_lost", "retry_exhausted", "cancelled",
        "expired",
    ]  # fmt: skip


def test_an_unknown_member_is_ignored() -> None:
    wire = {**msgspec.json.decode(encode(RECORD)), "colour": "blue"}
    assert read(msgspec.json.encode(wire), Record) == RECORD


@pytest.mark.parametrize(
    "change",
    [
        {"version": "v2"},
        {"serverlessRequestID": "other"},
        {"invocationID": "a.b"},
        {"invocationID": ""},
        {"invocationID": 7},
        {"acceptedAt": "2026-01-02T03:04:05"},
        {"deadlineAt": "soon"},
        {"series": -1},
        {"headers": {"a": 1}},
        {"mode": "later"},
    ],
    ids=str,
)
def test_an_invocation_that_cannot_run_here_is_malformed(change: dict[str, object]) -> None:
    wire = {**msgspec.json.decode(encode(INVOCATION)), **change}
    with pytest.raises(MalformedMessageError):
        read_invocation(msgspec.json.encode(wire), function="echo")


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_rejected_and_never_crash(data: bytes) -> None:
    for kind in (Invocation, Record, DeadLetter):
        with pytest.raises(MalformedMessageError):
            read(data, kind)
