"""Bad input to serverless routes: every field at fault is named, before the queue is used."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.rooms.api.service import INVOCATIONS, Service, service
from tests.rooms.operations.cluster import Cluster
from tests.rooms.serverless.calling.ingress import declare_function
from tests.row_ids import in_words

pytestmark = pytest.mark.looptime

LETTERS = "/api/v1/serverless/dead-letters"
LETTER = f"{LETTERS}/dl-{'0' * 24}"
BODY = {"invocationID": "one", "serverlessRequestID": "echo"}


@pytest.fixture
async def api() -> AsyncIterator[Service]:
    """Yield an API without serverless: what it refuses as bad input never needed the queue."""
    cluster = Cluster()
    declare_function(cluster)
    async with service(cluster) as served:
        yield served
        assert served.replica.transport.written() == [], "bad input reached the cluster"


BAD: list[tuple[dict[str, Any], list[str]]] = [
    ({"serverlessRequestID": "a.b"}, ["serverlessRequestID"]),
    ({"serverlessRequestID": "echo>"}, ["serverlessRequestID"]),
    ({"serverlessRequestID": "a b"}, ["serverlessRequestID"]),
    ({"invocationID": "a.*"}, ["invocationID"]),
    ({"invocationID": "a b"}, ["invocationID"]),
    ({"invocationID": "x" * 256}, ["invocationID"]),
    ({"timeoutSeconds": 0}, ["timeoutSeconds"]),
    ({"timeoutSeconds": -1}, ["timeoutSeconds"]),
    ({"timeoutSeconds": 10**9}, ["timeoutSeconds"]),
    ({"headers": {"X-A": "b\r\nX-B: c"}}, ["headers.X-A"]),
    ({"headers": {"Nats-Msg-Id": "a", "Host": "b"}}, ["headers.Nats-Msg-Id", "headers.Host"]),
    ({"replySubject": "a.b", "subject": "c"}, ["replySubject", "subject"]),
    ({"payload": "\ud800"}, ["payload"]),
    ({"payload": {"a": [float("nan")]}}, ["payload.a[0]"]),
]


@pytest.mark.parametrize(("members", "fields"), BAD, ids=in_words)
async def test_a_bad_invocation_is_rejected_with_every_faulty_field(
    api: Service, members: dict[str, Any], fields: list[str]
) -> None:
    answer = await api.call("POST", INVOCATIONS, {**BODY, **members})
    assert (answer.status, answer.code) == (400, "invalid_request")
    assert sorted(answer.fields) == sorted(fields)


async def test_a_body_above_the_limit_names_the_limit(api: Service) -> None:
    answer = await api.call("POST", INVOCATIONS, {**BODY, "payload": "x" * 1024 * 1024})
    assert (answer.status, answer.code) == (413, "body_too_large")
    assert "1048576" in answer.body["error"]["message"]


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("query", ["", "?serverlessRequestID=", "?serverlessRequestID=a.b"])
async def test_reading_an_invocation_requires_its_function(
    api: Service, method: str, query: str
) -> None:
    answer = await api.call(method, f"{INVOCATIONS}/one{query}")
    assert (answer.status, answer.fields) == (400, ["serverlessRequestID"])


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "cursor=x", "serverlessRequestID=*"])
async def test_a_bad_page_of_dead_letters_is_refused(api: Service, query: str) -> None:
    answer = await api.call("GET", f"{LETTERS}?{query}")
    assert (answer.status, answer.fields) == (400, [query.partition("=")[0]])


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", INVOCATIONS, BODY),
        ("POST", INVOCATIONS, {**BODY, "mode": "sync"}),
        ("GET", f"{INVOCATIONS}/one?serverlessRequestID=echo", None),
        ("DELETE", f"{INVOCATIONS}/one?serverlessRequestID=echo", None),
        ("GET", "/api/v1/serverless/functions", None),
        ("GET", LETTERS, None),
        ("POST", f"{LETTER}/redrive", None),
        ("DELETE", LETTER, None),
    ],
    ids=in_words,
)
async def test_without_a_queue_the_error_says_how_to_configure_one(
    api: Service, method: str, path: str, body: object
) -> None:
    answer = await api.call(method, path, body)
    assert (answer.status, answer.code) == (503, "service_unavailable")
    assert "nats.url" in answer.body["error"]["message"]
    assert answer.headers["Retry-After"]
