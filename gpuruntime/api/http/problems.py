"""The one table from errors to answers: each code has one status, whatever raised it."""

from collections.abc import Iterable, Mapping
from math import ceil
from typing import Final

import msgspec
from aiohttp import web

from gpuruntime.api.errors import (
    BodyTooLargeError,
    MethodNotAllowedError,
    RequestError,
    SlowBodyError,
    UnauthenticatedError,
    UnknownPathError,
)
from gpuruntime.models.views.errors import ErrorBody, ErrorDetail, ErrorView
from gpuruntime.operations.errors import OperationsError
from gpuruntime.serverless.errors import ServerlessError
from gpuruntime.strict.structure import Problem, StrictError

INVALID_REQUEST: Final = "invalid_request"
INTERNAL_ERROR: Final = "internal_error"

STATUSES: Final[Mapping[str, int]] = {
    INVALID_REQUEST: 400,
    "unauthenticated": 401,
    "forbidden": 403,
    "not_found": 404,
    "gpuunit_not_found": 404,
    "stockpool_not_found": 404,
    "job_not_found": 404,
    "gpustorage_not_found": 404,
    "secret_not_found": 404,
    "function_not_found": 404,
    "invocation_not_found": 404,
    "dead_letter_not_found": 404,
    "method_not_allowed": 405,
    "body_timeout": 408,
    "operation_conflict": 409,
    "operation_finished": 409,
    "name_taken": 409,
    "insufficient_capacity": 409,
    "spec_conflict": 409,
    "storage_in_use": 409,
    "too_many_secrets": 409,
    "nothing_to_recover": 409,
    "accessor_off": 409,
    "already_finished": 409,
    "gateway_off": 409,
    "port_unknown": 409,
    "exec_off": 409,
    "wake_off": 409,
    "precondition_failed": 412,
    "body_too_large": 413,
    "unsupported_media_type": 415,
    "too_many_requests": 429,
    "queue_full": 429,
    "head_too_large": 431,
    INTERNAL_ERROR: 500,
    "upstream_fault": 502,
    "service_unavailable": 503,
    "timeout": 504,
}
ASKS_TO_RETRY: Final = (429, 503)
RETRY_AFTER_SECONDS: Final = 2.0
CHALLENGE: Final = 'Bearer realm="gpuruntime"'
INVALID: Final = ', error="invalid_token"'

# Errors that this room answers itself, instead of aiohttp's own pages.
RoomError = RequestError | OperationsError | ServerlessError | StrictError
Known = RoomError | web.HTTPException
KNOWN: Final = (RequestError, OperationsError, ServerlessError, StrictError, web.HTTPException)


def problem_answer(error: Known, method: str) -> web.Response:
    known = _translated(error, method)
    if isinstance(known, StrictError):
        message = "the request is not valid: details name each field at fault"
        return _answer(INVALID_REQUEST, message, details=_details(known.problems))
    headers: dict[str, str] = {}
    if isinstance(known, MethodNotAllowedError):
        headers["Allow"] = ", ".join(known.allowed)
    if isinstance(known, UnauthenticatedError):
        headers["WWW-Authenticate"] = CHALLENGE + (INVALID if known.is_given else "")
    if STATUSES[known.code] in ASKS_TO_RETRY:
        asked = getattr(known, "retry_after_seconds", None) or RETRY_AFTER_SECONDS
        headers["Retry-After"] = str(ceil(asked))
    answer = _answer(known.code, str(known), headers=headers)
    if isinstance(known, SlowBodyError):
        answer.force_close()  # the rest of the body would be taken for the next request
    return answer


def bug_answer(request_id: str) -> web.Response:
    """Return an answer without details, which the log has under the same request id."""
    message = f"internal error of the service: report it with the request id {request_id}"
    return _answer(INTERNAL_ERROR, message)


def _translated(error: Known, method: str) -> RoomError:
    match error:
        case web.HTTPMethodNotAllowed():
            return MethodNotAllowedError(method, tuple(sorted(error.allowed_methods)))
        case web.HTTPRequestEntityTooLarge():
            return BodyTooLargeError("the body is too large: send less")
        case web.HTTPException():
            return UnknownPathError("nothing is served at this path: see /openapi.json")
        case _:
            return error


def _details(problems: Iterable[Problem]) -> tuple[ErrorDetail, ...]:
    return tuple(
        ErrorDetail(field=_encodable(each.field), message=_encodable(each.message))
        for each in problems
    )


def _encodable(text: str) -> str:
    """Escape lone surrogates, which a caller's text may bring and JSON cannot encode."""
    return text.encode(errors="backslashreplace").decode()


def _answer(
    code: str,
    message: str,
    *,
    details: tuple[ErrorDetail, ...] = (),
    headers: Mapping[str, str] | None = None,
) -> web.Response:
    view = ErrorView(code=code, message=_encodable(message), details=details)
    return web.Response(
        status=STATUSES[code],
        body=msgspec.json.encode(ErrorBody(error=view)),
        content_type="application/json",
        headers=headers,
    )
