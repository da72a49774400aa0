"""Answers as values: every answer is decoded, or raised as the error that it is."""

import json
from typing import Any

import attrs
import pytest

from gpuruntime.client import UNSET, NewUnit, UnitChange
from gpuruntime.client.errors import (
    AccessDeniedError,
    BusyError,
    ConflictError,
    DeadlineError,
    GatewayError,
    InvalidRequestError,
    NotFoundError,
    PreconditionError,
    ProblemError,
    UnreadableAnswerError,
    UnusableInputError,
)
from gpuruntime.client.messages import Answer, Request, page_of, path_of, problem_of, reply_of
from gpuruntime.client.requests import document_of, named
from gpuruntime.models.kinds.templates import Port, Template
from gpuruntime.models.views.errors import ErrorDetail
from gpuruntime.models.views.operators import Job

JOB = {
    "operationID": "one",
    "type": "seed_stock_units",
    "status": "running",
    "objectName": "op-1",
    "objectNamespace": "runtime-stock",
    "requested": 2,
    "created": 1,
    "ready": 0,
    "consumed": 0,
    "error": "",
    "message": "",
    "createdAt": None,
    "updatedAt": "2026-01-01T00:00:00Z",
}


def said(document: object, status: int = 200, **headers: str) -> Answer:
    named_headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(
        status=status,
        headers={"content-type": "application/json; charset=utf-8", **named_headers},
        body=json.dumps(document).encode(),
    )


def test_a_reply_holds_the_data_and_what_the_headers_say() -> None:
    headers = {"etag": '"a-1"', "idempotent_replay": "true", "x_request_id": "r"}
    reply = reply_of(said({"data": JOB}, 200, **headers), Job)
    assert (reply.data.operationID, reply.data.createdAt) == ("one", None)
    assert (reply.etag, reply.is_replay, reply.request_id) == ('"a-1"', True, "r")


def test_members_and_words_of_a_newer_server_are_accepted() -> None:
    newer = {**JOB, "status": "paused", "priority": {"class": "high"}}
    assert reply_of(said({"data": newer, "warnings": []}), Job).data.status == "paused"
    assert page_of(said({"data": [newer], "next": "c", "total": 9}), Job).next == "c"


@pytest.mark.parametrize(
    "answer",
    [
        said({"data": {**JOB, "requested": "2"}}),
        said({"data": None}),
        said([]),
        attrs.evolve(said({}), body=b"{"),
        attrs.evolve(said({}), body=b'{"data": ' + b"[" * 100_000),
        attrs.evolve(said({"data": JOB}), headers={"content-type": "text/html"}),
        attrs.evolve(said({"data": JOB}), headers={}),
        said({"data": JOB}, 302),
    ],
    ids=[
        "a member of another type",
        "no data",
        "no object",
        "half an object",
        "endless nesting",
        "html",
        "no media type",
        "a redirect",
    ],
)
def test_an_answer_of_another_shape_is_unreadable(answer: Answer) -> None:
    with pytest.raises(UnreadableAnswerError):
        reply_of(answer, Job)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InvalidRequestError),
        (401, AccessDeniedError),
        (403, AccessDeniedError),
        (404, NotFoundError),
        (409, ConflictError),
        (412, PreconditionError),
        (413, InvalidRequestError),
        (408, BusyError),
        (429, BusyError),
        (500, ProblemError),
        (503, BusyError),
        (504, DeadlineError),
    ],
)
def test_a_problem_has_its_class_code_and_message(status: int, kind: type[ProblemError]) -> None:
    detail = {"field": "image", "message": "is required"}
    document = {"error": {"code": "a_code", "message": "some words", "details": [detail]}}
    error = problem_of(said(document, status, x_request_id="r", retry_after="3"))
    assert type(error) is kind
    assert isinstance(error, ProblemError)
    assert (error.code, error.message, error.status) == ("a_code", "some words", status)
    assert error.details == (ErrorDetail(field="image", message="is required"),)
    assert (error.request_id, error.retry_after_seconds) == ("r", 3.0)
    assert str(error) == f"some words (a_code, {status})"


@pytest.mark.parametrize("text", ["", "soon", "-1", "nan", "inf", "1e9"])
def test_an_unusable_retry_after_is_ignored(text: str) -> None:
    error = problem_of(said({"error": {"code": "c", "message": "m"}}, 503, retry_after=text))
    assert error.retry_after_seconds is None


@pytest.mark.parametrize(("status", "kind"), [(502, GatewayError), (403, UnreadableAnswerError)])
def test_an_error_page_of_a_proxy_is_not_a_problem_of_the_api(status: int, kind: Any) -> None:
    html = Answer(status=status, headers={"content-type": "text/html"}, body=b"<h1>no</h1>")
    assert type(problem_of(html)) is kind
    assert type(problem_of(said({"message": "no"}, status))) is kind


@pytest.mark.parametrize("part", ["", ".", ".."])
def test_a_name_cannot_change_the_path(part: str) -> None:
    assert path_of("gpu-units", "a/../b?c#d") == "/api/v1/gpu-units/a%2F..%2Fb%3Fc%23d"
    with pytest.raises(UnusableInputError):
        path_of("gpu-units", part)


def test_empty_parameters_are_left_out() -> None:
    query = {"limit": 5, "cursor": "", "tail": None, "follow": True, "tenant": "a&b"}
    assert Request(method="GET", path="/p", query=query).target == (
        "/p?limit=5&follow=true&tenant=a%26b"
    )
    assert Request(method="GET", path="/p").target == "/p"


def test_a_request_holds_only_the_members_that_the_caller_set() -> None:
    ports = (Port(name="http", port=80),)
    unit = NewUnit(specName="g1", image="a", template=Template(ports=ports))
    assert document_of(unit) == {
        "specName": "g1",
        "image": "a",
        "template": {"ports": [{"name": "http", "port": 80}]},
    }


def test_in_a_change_none_clears_and_an_absent_member_stays() -> None:
    assert document_of(UnitChange(template=None)) == {"template": None}
    assert document_of(UnitChange(suspended=False, image=UNSET)) == {"suspended": False}


def test_a_missing_id_is_generated() -> None:
    assert named({"operationID": "mine"}, "operationID") == {"operationID": "mine"}
    made = {str(named({}, "operationID")["operationID"]) for _ in range(2)}
    assert len(made) == 2
    assert all(each.startswith("client-") for each in made)
