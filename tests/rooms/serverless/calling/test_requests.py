"""Bodies of invocations: which are rejected, and that a payload arrives as sent."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.models.kinds.invocations import Mode
from gpuruntime.operations.hashing import request_hash
from gpuruntime.serverless.calling.requests import parse_invoke, payload_of
from gpuruntime.strict.structure import StrictError

LEAST: dict[str, Any] = {"serverlessRequestID": "echo"}
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(min_value=-(10**18), max_value=10**18)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("abc"), inner),
    max_leaves=8,
)

BAD: list[tuple[dict[str, Any], list[str]]] = [
    ({"serverlessRequestID": ""}, ["serverlessRequestID"]),
    ({"serverlessRequestID": "Echo"}, ["serverlessRequestID"]),
    ({"serverlessRequestID": "a.b"}, ["serverlessRequestID"]),
    ({"serverlessRequestID": "*"}, ["serverlessRequestID"]),
    ({"serverlessRequestID": "x" * 64}, ["serverlessRequestID"]),
    ({"invocationID": ""}, ["invocationID"]),
    ({"invocationID": "a.b"}, ["invocationID"]),
    ({"invocationID": "a*"}, ["invocationID"]),
    ({"invocationID": ">"}, ["invocationID"]),
    ({"invocationID": "a b"}, ["invocationID"]),
    ({"invocationID": "a\n"}, ["invocationID"]),
    ({"invocationID": "x" * 256}, ["invocationID"]),
    ({"invocationID": None}, ["invocationID"]),
    ({"mode": "both"}, ["mode"]),
    ({"mode": True}, ["mode"]),
    ({"timeoutSeconds": 0}, ["timeoutSeconds"]),
    ({"timeoutSeconds": -1}, ["timeoutSeconds"]),
    ({"timeoutSeconds": 10**9}, ["timeoutSeconds"]),
    ({"timeoutSeconds": 86_401}, ["timeoutSeconds"]),
    ({"timeoutSeconds": 1.5}, ["timeoutSeconds"]),
    ({"timeoutSeconds": "7"}, ["timeoutSeconds"]),
    ({"timeoutSeconds": None}, ["timeoutSeconds"]),
    ({"lifeSeconds": 0}, ["lifeSeconds"]),
    ({"lifeSeconds": 86_401}, ["lifeSeconds"]),
    ({"waitSeconds": -1}, ["waitSeconds"]),
    ({"waitSeconds": 301}, ["waitSeconds"]),
    ({"waitSeconds": 1.5}, ["waitSeconds"]),
    ({"waitSeconds": "60"}, ["waitSeconds"]),
    ({"contentType": ""}, ["contentType"]),
    ({"contentType": "json"}, ["contentType"]),
    ({"contentType": "a/b\r\nX: y"}, ["contentType"]),
    ({"headers": []}, ["headers"]),
    ({"headers": {"A": "b\r\nC: d"}}, ["headers.A"]),
    ({"headers": {"A": "b\n"}}, ["headers.A"]),
    ({"headers": {"A": "\0"}}, ["headers.A"]),
    ({"headers": {"A\r\nB": "c"}}, ["headers.A\r\nB"]),
    ({"headers": {"A B": "c"}}, ["headers.A B"]),
    ({"headers": {"": "c"}}, ["headers."]),
    ({"headers": {"Host": "c"}}, ["headers.Host"]),
    ({"headers": {"content-LENGTH": "1"}}, ["headers.content-LENGTH"]),
    ({"headers": {"Transfer-Encoding": "chunked"}}, ["headers.Transfer-Encoding"]),
    ({"headers": {"Nats-TTL": "1s"}}, ["headers.Nats-TTL"]),
    ({"headers": {"nats-msg-id": "a"}}, ["headers.nats-msg-id"]),
    ({"headers": {"A": "b", "a": "c"}}, ["headers.a"]),
    ({"headers": {"A": "x" * 8193}}, ["headers.A"]),
    ({"headers": {"x" * 129: "a"}}, [f"headers.{'x' * 128}"]),
    ({"headers": {f"h{n}": "" for n in range(101)}}, ["headers"]),
    ({"headers": {f"h{n}": "x" * 8192 for n in range(9)}}, ["headers"]),
    ({"attributes": {"a": "x" * 8193}}, ["attributes.a"]),
    ({"replySubject": "runtime.changed.a"}, ["replySubject"]),
    ({"reply": "a", "mode": 1, "headers": {"Host": ""}}, ["reply", "mode", "headers.Host"]),
]


@pytest.mark.parametrize(("members", "fields"), BAD, ids=[str(members)[:60] for members, _ in BAD])
def test_a_bad_invocation_is_rejected_with_every_faulty_field(
    members: dict[str, Any], fields: list[str]
) -> None:
    with pytest.raises(StrictError) as caught:
        parse_invoke({**LEAST, **members})
    assert sorted(problem.field for problem in caught.value.problems) == sorted(fields)


def test_a_value_that_is_not_text_is_rejected_with_its_name() -> None:
    with pytest.raises(StrictError) as caught:
        parse_invoke({**LEAST, "headers": {"A": 1}, "attributes": {"b": None}})
    found = {problem.field: problem.message for problem in caught.value.problems}
    assert found == {
        "headers.A": "must be a string, not an integer",
        "attributes.b": "must be a string, not null",
    }


def test_a_header_with_two_faults_is_reported_once() -> None:
    with pytest.raises(StrictError) as caught:
        parse_invoke({**LEAST, "headers": {"Host": 1}})
    assert [problem.field for problem in caught.value.problems] == ["headers.Host"]


def test_defaults_are_asynchronous_json_with_a_null_payload() -> None:
    request = parse_invoke(LEAST)
    assert (request.mode, request.contentType, request.timeoutSeconds) == (
        Mode.ASYNC,
        "application/json",
        None,
    )
    assert bytes(payload_of(request)) == b"null"


@given(JSON)
def test_a_payload_of_any_shape_arrives_as_sent(payload: object) -> None:
    request = parse_invoke({**LEAST, "payload": payload})
    assert json.loads(bytes(payload_of(request))) == payload


@given(JSON, JSON)
def test_two_requests_are_equal_exactly_if_their_payloads_are_the_same_json(
    one: object, other: object
) -> None:
    hashes = [request_hash(parse_invoke({**LEAST, "payload": each})) for each in (one, other)]
    texts = [json.dumps(each, sort_keys=True) for each in (one, other)]
    assert (hashes[0] == hashes[1]) == (texts[0] == texts[1])


def test_member_order_and_explicit_defaults_do_not_change_the_hash() -> None:
    one = {**LEAST, "payload": {"a": 1, "b": [1, {"c": 2, "d": 3}]}}
    other = {
        "payload": {"b": [1, {"d": 3, "c": 2}], "a": 1},
        "mode": "async",
        "headers": {},
        "contentType": "application/json",
        **LEAST,
    }
    assert request_hash(parse_invoke(one)) == request_hash(parse_invoke(other))
    assert request_hash(parse_invoke(one)) != request_hash(parse_invoke({**one, "mode": "sync"}))
