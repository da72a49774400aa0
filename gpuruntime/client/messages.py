"""Requests as bytes that the API reads, and its answers as values."""

import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import attrs
import msgspec

from gpuruntime.client.errors import (
    GatewayError,
    ProblemError,
    UnreadableAnswerError,
    UnusableInputError,
    problem_class,
)
from gpuruntime.client.retries import Repeat
from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.codec import MalformedObjectError
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.views.errors import ErrorBody

ModelT = TypeVar("ModelT")

JSON = "application/json"
ROOT = "/api/v1"
# Seconds; a longer Retry-After is ignored.
_LONGEST_RETRY_AFTER = 3600.0
_GATEWAY = (HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT)


@attrs.frozen(kw_only=True, slots=True)
class Request:
    """A request; `path` is encoded, and query parameters that are empty or None are left out."""

    method: str
    path: str
    query: Mapping[str, object] = attrs.field(factory=dict)
    body: bytes | None = None
    headers: Mapping[str, str] = attrs.field(factory=dict)
    repeat: Repeat = Repeat.ALWAYS
    # None takes the value of the options.
    timeout_seconds: float | None = None

    @property
    def target(self) -> str:
        given = {name: value for name, value in self.query.items() if value not in ("", None)}
        words = [f"{name}={quote(_word(value), safe='')}" for name, value in given.items()]
        return f"{self.path}?{'&'.join(words)}" if words else self.path


@attrs.frozen(kw_only=True, slots=True)
class Answer:
    """An answer that was read whole; names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@attrs.frozen(kw_only=True, slots=True)
class Reply(Generic[ModelT]):
    """A value of the API. Pass `etag` as `if_match` to change this version alone.

    `etag` is empty if the API sent none.
    """

    data: ModelT
    etag: str = ""
    # The operation was done before; `data` is its object as it is now.
    is_replay: bool = False
    request_id: str = ""


@attrs.frozen(kw_only=True, slots=True)
class Page(Generic[ModelT]):
    """A page of a list; `next` is the cursor of the following page, empty on the last."""

    items: tuple[ModelT, ...]
    next: str = ""


@attrs.frozen(kw_only=True, slots=True)
class _One:
    data: msgspec.Raw


@attrs.frozen(kw_only=True, slots=True)
class _Many:
    data: list[msgspec.Raw]
    next: str = ""


def path_of(*parts: str) -> str:
    """Return the path below the root; raise UnusableInputError for an empty, `.` or `..` part."""
    for part in parts:
        if part in ("", ".", ".."):
            raise UnusableInputError(f"{part!r} is not a name")
    return "/".join((ROOT, *(quote(part, safe="") for part in parts)))


def encoded(document: JsonObject) -> bytes:
    try:
        return codec.encode(document)
    except (TypeError, ValueError, RecursionError) as error:
        raise UnusableInputError(f"the body cannot be written as JSON: {error}") from error


def reply_of(answer: Answer, model: type[ModelT]) -> Reply[ModelT]:
    """Return the decoded answer; raise ProblemError, GatewayError or UnreadableAnswerError."""
    demand_success(answer)
    return Reply(
        data=_decoded(bytes(_decoded(answer.body, _One).data), model),
        etag=answer.headers.get("etag", ""),
        is_replay=answer.headers.get("idempotent-replay", "") == "true",
        request_id=answer.headers.get("x-request-id", ""),
    )


def page_of(answer: Answer, model: type[ModelT]) -> Page[ModelT]:
    demand_success(answer)
    found = _decoded(answer.body, _Many)
    items = tuple(_decoded(bytes(each), model) for each in found.data)
    return Page(items=items, next=found.next)


def demand_success(answer: Answer) -> None:
    """Raise unless the answer is a success in JSON, or a 204, which has no body."""
    if answer.status == HTTPStatus.NO_CONTENT:
        return
    is_json = is_of_type(answer.headers, JSON)
    if not HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
        raise problem_of(answer)
    if not is_json:
        raise UnreadableAnswerError(
            f"the server answers {answer.status} with {_type_of(answer.headers)}, not {JSON}: "
            "is it the API?"
        )


def problem_of(answer: Answer) -> ProblemError | GatewayError | UnreadableAnswerError:
    """Return the error of an answer without success: a ProblemError if the API wrote it."""
    if is_of_type(answer.headers, JSON):
        try:
            error = codec.decode(answer.body, ErrorBody).error
        except MalformedObjectError:
            pass
        else:
            return problem_class(answer.status, error.code)(
                error.message,
                status=answer.status,
                code=error.code,
                details=error.details,
                request_id=answer.headers.get("x-request-id", ""),
                retry_after_seconds=_retry_after(answer.headers),
            )
    words = f"the server answers {answer.status}, not in the API's format"
    if answer.status in _GATEWAY:
        return GatewayError(words)
    return UnreadableAnswerError(f"{words}: is it the API?")


def is_of_type(headers: Mapping[str, str], media_type: str) -> bool:
    return _type_of(headers) == media_type


def _type_of(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower() or "no type"


def _decoded(data: bytes, model: type[ModelT]) -> ModelT:
    try:
        return codec.decode(data, model)
    except MalformedObjectError as error:
        raise UnreadableAnswerError(f"the server's answer is malformed: {error}") from (error)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of Retry-After, or None for a date, which only proxies send."""
    try:
        seconds = float(headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and 0 <= seconds <= _LONGEST_RETRY_AFTER else None


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
