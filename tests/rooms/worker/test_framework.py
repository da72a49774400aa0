import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from gpuruntime.models.kinds.functions import Framework as Where
from gpuruntime.models.kinds.invocations import FailureClass, FunctionError
from gpuruntime.worker.outcomes import Answer, Failure, NotCalled, Outcome
from tests.rooms.worker.frameworks import Behave, answering, behaving, caller
from tests.rooms.worker.invocations import invocation

JSON = "Content-Type: application/json"


@pytest.fixture
def where() -> Iterator[Where]:
    with tempfile.TemporaryDirectory(prefix="fw-") as folder:
        yield Where(socketPath=str(Path(folder, "framework.sock")))


async def called(where: Where, behave: Behave, *, within_seconds: float = 5.0) -> Outcome:
    async with behaving(where, behave), caller(where, most_answer_bytes=1_000_000) as framework:
        return await framework.call(invocation(), attempt=2, within_seconds=within_seconds)


async def test_a_call_has_all_members_of_the_contract(where: Where) -> None:
    behave = answering("200 OK", b"{}")
    async with behaving(where, behave) as asked, caller(where) as framework:
        await framework.call(invocation(), attempt=2, within_seconds=9.0)
    head, _, body = asked[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /invoke HTTP/1.1\r\n")
    assert b"Content-Type: application/json" in head
    assert msgspec.json.decode(body) == {
        "version": "v1",
        "invocationID": "one",
        "serverlessRequestID": "echo",
        "workerName": "worker-1",
        "workerNamespace": "here",
        "mode": "async",
        "attempt": 2,
        "contentType": "application/json",
        "headers": {},
        "attributes": {},
        "payload": {"n": 1},
        "timeoutSeconds": 9.0,
    }


async def test_an_answer_keeps_its_body_byte_for_byte(where: Where) -> None:
    told = b'{"statusCode":201,"headers":{"A":"b"},"body":{"x" : 1.50},"error":null,"later":1}'
    outcome = await called(where, answering("200 OK", told))
    assert isinstance(outcome, Answer)
    assert (outcome.statusCode, outcome.headers, outcome.error) == (201, {"A": "b"}, None)
    assert bytes(outcome.body) == b'{"x" : 1.50}'


@pytest.mark.parametrize(
    "nulls",
    [
        b'"headers":null',
        b'"headers":{"A":null}',
        b'"contentType":null',
        b'"statusCode":null',
        b'"statusCode":null,"contentType":null,"headers":null,"error":null',
    ],
)
async def test_a_null_beside_the_body_is_absent_and_leaves_the_bodys_nulls(
    where: Where, nulls: bytes
) -> None:
    body = b'{"a" : null,"b":[null , 1.50]}'
    outcome = await called(where, answering("200 OK", b"{" + nulls + b',"body":' + body + b"}"))
    assert outcome == Answer(body=msgspec.Raw(body))


@pytest.mark.parametrize("told", [b"{}", b'{"body":null}', b'{"headers":null,"body":null}'])
async def test_a_null_body_equals_an_absent_one(where: Where, told: bytes) -> None:
    assert await called(where, answering("200 OK", told)) == Answer()


@pytest.mark.parametrize(
    ("behave", "words"),
    [
        (answering("200 OK", b""), "malformed"),
        (answering("200 OK", b"{"), "malformed"),
        (answering("200 OK", b"\xff\xfe"), "malformed"),
        (answering("200 OK", b"[1]"), "malformed"),
        (answering("200 OK", b'{"statusCode":"200"}'), "statusCode"),
        (answering("200 OK", b'{"statusCode":99}'), "status 99"),
        (answering("200 OK", b'{"headers":{"a":1}}'), "headers"),
        (answering("200 OK", b'{"statusCode":"200","headers":null}'), "statusCode"),
        (answering("200 OK", b"null"), "malformed"),
        (answering("200 OK", b'{"error":7}'), "error"),
        (answering("200 OK", b"{}", "Content-Type: text/html"), "text/html"),
        (answering("200 OK", b'{"body":"' + b"x" * 5_000_000 + b'"}'), "more than 1000000 bytes"),
        (answering("200 OK", b'{"contentType":"' + b"x" * 70_000 + b'"}'), "beside its body"),
        (answering("500 Broken", b"{}"), "answered 500"),
        (answering("503 Busy", b"{}"), "answered 503"),
        (answering("429 Busy", b"{}"), "answered 429"),
        (answering("302 Found", b"", "Location: /elsewhere"), "answered 302"),
        (answering("garbage", b"{}"), "the connection"),
        (lambda _, writer: writer.write(b"\x00\x01\x02\r\n\r\n"), "the connection"),
        (lambda _, writer: writer.close(), "the connection"),
        (lambda _, writer: writer.transport.abort(), "the connection"),
        (answering("200 OK", b"{}", JSON, "Content-Length: 99"), "the connection"),
    ],
    ids=[
        "empty", "cut off", "no text", "a list", "status as text", "status 99", "header as number",
        "status as text beside a null", "null", "error as number", "HTML", "long body",
        "long content type", "500", "503", "429", "redirect", "no HTTP", "binary", "closed",
        "reset", "shorter than announced",
    ],
)  # fmt: skip
async def test_a_bad_answer_is_a_framework_error_that_may_be_retried(
    where: Where, behave: Behave, words: str
) -> None:
    outcome = await called(where, behave)
    assert isinstance(outcome, Failure), outcome
    assert outcome.cause is FailureClass.FRAMEWORK_ERROR
    assert words in outcome.error
    assert not outcome.is_final
    assert len(outcome.error) < 600


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (b'"no model"', FunctionError(message="no model")),
        (
            b'{"type":"KeyError","message":"name","traceback":"at line 3"}',
            FunctionError(type="KeyError", message="name", traceback="at line 3"),
        ),
        (b'{"message":"name","code":7}', FunctionError(message="name")),
        (b'{"type":"KeyError","message":null}', FunctionError(type="KeyError")),
        (b'""', None),
        (b"{}", None),
        (b"null", None),
    ],
    ids=["text", "whole", "other members", "null message", "empty text", "empty", "null"],
)
async def test_an_error_is_a_text_or_has_type_message_and_traceback(
    where: Where, error: bytes, expected: FunctionError | None
) -> None:
    outcome = await called(where, answering("200 OK", b'{"error":' + error + b"}"))
    assert isinstance(outcome, Answer)
    assert outcome.error == expected


async def test_a_long_error_is_cut_and_keeps_the_end_of_its_traceback(where: Where) -> None:
    error = {"type": "T" * 900, "message": "m" * 900, "traceback": "a" * 3_000 + "z"}
    outcome = await called(where, answering("200 OK", msgspec.json.encode({"error": error})))
    assert isinstance(outcome, Answer)
    assert outcome.error is not None
    assert (outcome.error.type, outcome.error.message) == ("T" * 500, "m" * 500)
    assert outcome.error.traceback == "a" * 2_047 + "z"


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b'{"error":{"type":"KeyError","message":"name"}}', "the framework answered 500: name"),
        (b"the model\n is gone\n", "the framework answered 500: the model is gone"),
        (b"", "the framework answered 500"),
        (b"\xff" * 9, "the framework answered 500: " + "\ufffd" * 9),
        (b"x" * 100_000, "the framework answered 500"),
    ],
    ids=["error", "text", "empty", "binary", "too long"],
)
async def test_a_status_that_is_not_200_carries_the_words_of_the_framework(
    where: Where, body: bytes, error: str
) -> None:
    outcome = await called(where, answering("500 Broken", body))
    assert isinstance(outcome, Failure)
    assert outcome.error == error
    assert outcome.raised == (
        FunctionError(type="KeyError", message="name") if b"KeyError" in body else None
    )


@pytest.mark.parametrize("status", ["400 Bad", "404 Not Found", "413 Large", "422 Unfit"])
async def test_a_rejection_of_the_call_itself_is_final(where: Where, status: str) -> None:
    outcome = await called(where, answering(status, b"{}"))
    assert isinstance(outcome, Failure)
    assert outcome.is_final


@pytest.mark.parametrize(
    "behave",
    [
        lambda _, __: None,
        lambda _, writer: writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"),
        lambda _, writer: writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
        ),
    ],
)
async def test_an_answer_that_never_ends_is_a_timeout(where: Where, behave: Behave) -> None:
    outcome = await called(where, behave, within_seconds=0.1)
    assert isinstance(outcome, Failure)
    assert outcome.cause is FailureClass.FRAMEWORK_TIMEOUT


async def test_a_framework_that_does_not_listen_was_not_called(where: Where) -> None:
    async with caller(where) as framework:
        assert isinstance(
            await framework.call(invocation(), attempt=1, within_seconds=5), NotCalled
        )
        assert await framework.problem()


async def test_cookies_are_not_kept_between_calls(where: Where) -> None:
    behave = answering("200 OK", b"{}", JSON, "Set-Cookie: a=b")
    async with behaving(where, behave) as asked, caller(where) as framework:
        for _ in range(2):
            await framework.call(invocation(), attempt=1, within_seconds=5)
    assert len(asked) == 2
    assert b"ookie" not in asked[1]


@pytest.mark.parametrize(
    ("behave", "problem"),
    [
        (answering("200 OK", b"ok"), ""),
        (answering("503 Busy", b""), "health status 503"),
        (lambda _, writer: writer.close(), "disconnected"),
    ],
)
async def test_health_is_what_the_framework_reports(
    where: Where, behave: Behave, problem: str
) -> None:
    async with behaving(where, behave) as asked, caller(where) as framework:
        told = await framework.problem()
    assert problem in told
    assert bool(told) == bool(problem)
    assert asked[0].startswith(b"GET /healthz ")


async def test_an_abandoned_call_closes_its_connection(where: Where) -> None:
    called, closed = asyncio.Event(), asyncio.Event()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"}")
        called.set()
        await reader.read()
        closed.set()
        writer.close()

    server = await asyncio.start_unix_server(connected, where.socketPath)
    async with server, caller(where) as framework, asyncio.TaskGroup() as tasks:
        call = tasks.create_task(framework.call(invocation(), attempt=1, within_seconds=60))
        async with asyncio.timeout(5):
            await called.wait()
            call.cancel()
            await closed.wait()
