"""The caller gets a value or an error of the room that names the object, for any answer."""

import pytest

from gpuruntime.kube.answers import LONGEST_RETRY_AFTER_SECONDS, Call, error_of, status_of
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import (
    AlreadyExistsError,
    ApiError,
    BadRequestError,
    ConflictError,
    ExpiredError,
    ForbiddenError,
    InvalidError,
    KubeError,
    MalformedAnswerError,
    NotFoundError,
    OutcomeUnknownError,
    ThrottledError,
    UnauthorizedError,
    UnavailableError,
)
from gpuruntime.kube.transport import Response
from gpuruntime.models.encoding import codec
from tests.rooms.kube.things import KEY, THINGS, always, answer, failure, thing, thing_list

GET = Call("get", "things", "lab/anvil")
PATCH = Call("patch", "things", "lab/anvil")
HTML = b"<html><body>502 Bad Gateway</body></html>"


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (400, "BadRequest", BadRequestError),
        (401, "Unauthorized", UnauthorizedError),
        (403, "Forbidden", ForbiddenError),
        (404, "NotFound", NotFoundError),
        (405, "MethodNotAllowed", BadRequestError),
        (409, "AlreadyExists", AlreadyExistsError),
        (409, "Conflict", ConflictError),
        (410, "Expired", ExpiredError),
        (413, "RequestEntityTooLarge", BadRequestError),
        (415, "UnsupportedMediaType", BadRequestError),
        (422, "Invalid", InvalidError),
        (429, "TooManyRequests", ThrottledError),
        (500, "InternalError", UnavailableError),
        (503, "ServiceUnavailable", UnavailableError),
        (504, "Timeout", UnavailableError),
    ],
)
def test_each_failure_is_the_error_of_its_status(
    code: int, reason: str, expected: type[ApiError]
) -> None:
    error = error_of(failure(code, reason, "the server's words"), GET)
    assert type(error) is expected
    assert str(error) == f"get things lab/anvil: {code} {reason}: the server's words"
    assert (error.status, error.reason) == (code, reason)


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_write_that_a_gateway_abandoned_has_an_unknown_outcome(status: int) -> None:
    error = error_of(Response(status=status, body=HTML), PATCH)
    assert type(error) is OutcomeUnknownError
    assert "Bad Gateway" in str(error)


@pytest.mark.parametrize(("code", "reason"), [(500, "InternalError"), (504, "Timeout")])
def test_a_write_that_the_server_timed_out_on_has_an_unknown_outcome(
    code: int, reason: str
) -> None:
    refusal = failure(code, reason, "etcdserver: request timed out")
    assert type(error_of(refusal, PATCH)) is OutcomeUnknownError


def test_a_write_that_the_server_itself_refuses_as_unavailable_did_not_happen() -> None:
    refusal = failure(503, "ServiceUnavailable", "shutting down")
    assert type(error_of(refusal, PATCH)) is UnavailableError


@pytest.mark.parametrize("status", [302, 400, 403, 404, 409, 410, 422])
@pytest.mark.parametrize("body", [HTML, b"", b'{"kind":"Stat', b"404 page not found", b"[1]"])
def test_a_refusal_without_a_status_object_is_malformed(status: int, body: bytes) -> None:
    error = error_of(Response(status=status, body=body), GET)
    assert type(error) is MalformedAnswerError
    assert "get things lab/anvil" in str(error)
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("status", "expected"),
    [(401, UnauthorizedError), (429, ThrottledError), (503, UnavailableError)],
)
@pytest.mark.parametrize("body", [HTML, b"", b'{"kind":'])
def test_a_proxy_may_refuse_without_a_status_object(
    status: int, expected: type[KubeError], body: bytes
) -> None:
    assert type(error_of(Response(status=status, body=body), GET)) is expected


@pytest.mark.parametrize(
    ("header", "detail", "expected"),
    [
        ("7", None, 7.0),
        ("", 3, 3.0),
        ("7", 3, 7.0),
        ("Wed, 21 Oct 2026 07:28:00 GMT", 3, 3.0),
        ("-1", None, None),
        ("nan", None, None),
        ("0", "x", None),
        ("99999999", None, LONGEST_RETRY_AFTER_SECONDS),
        pytest.param("9" * 400, None, None, id="header beyond any float"),
        pytest.param("", 10**400, None, id="details beyond any float"),
    ],
)
def test_the_wait_comes_from_the_header_or_the_details(
    header: str, detail: object, expected: float | None
) -> None:
    refusal = failure(429, "TooManyRequests", retryAfterSeconds=detail)
    error = error_of(Response(status=429, headers={"retry-after": header}, body=refusal.body), GET)
    assert isinstance(error, ThrottledError)
    assert error.retry_after_seconds == expected


def test_members_of_a_wrong_type_leave_the_rest_of_a_status_readable() -> None:
    body = codec.encode(
        {"kind": "Status", "code": "404", "reason": None, "message": "gone", "details": [1]}
    )
    status = status_of(body)
    assert status is not None
    assert (status.code, status.reason, status.message) == (0, "", "gone")


@pytest.mark.parametrize(
    "body",
    [
        HTML,
        b"",
        b'{"kind":"Thing","metadata":{"na',
        b'{"kind":"Other","metadata":{"name":"anvil"}}',
        b'{"metadata":{"name":"anvil"}}',
        b'{"kind":"Status","status":"Failure"}',
        b'{"kind":"Thing","metadata":{"name":5}}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
    ids=[
        "html",
        "empty",
        "cut off",
        "another kind",
        "no kind",
        "status",
        "name of a wrong type",
        "not utf-8",
        "too deep",
    ],
)
async def test_an_answer_that_is_not_the_object_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedAnswerError, match=r"get things\.test\.example lab/anvil"):
        await Client(always(Response(status=200, body=body))).get(THINGS, KEY)


async def test_a_list_of_another_kind_is_malformed() -> None:
    page = {**thing_list(thing()), "kind": "OtherList"}
    with pytest.raises(MalformedAnswerError, match="OtherList"):
        await Client(always(answer(page))).list_page(THINGS)


async def test_an_object_in_place_of_a_list_is_malformed() -> None:
    with pytest.raises(MalformedAnswerError, match="ThingList"):
        await Client(always(answer(thing()))).list_page(THINGS)


async def test_a_bad_item_of_a_list_is_named() -> None:
    bad = thing("bent")
    bad["spec"] = {"size": "large"}
    with pytest.raises(MalformedAnswerError, match=r"Thing lab/bent at \$\.spec\.size"):
        await Client(always(answer(thing_list(thing(), bad)))).list_page(THINGS)


@pytest.mark.parametrize("body", [HTML, b"", b"{}", b'{"kind":'])
async def test_a_deletion_not_answered_by_an_api_server_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedAnswerError, match=r"delete things\.test\.example lab/anvil"):
        await Client(always(Response(status=200, body=body))).delete(THINGS, KEY)
