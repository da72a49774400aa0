"""Refusals of the gateway: each code has one status, and an answer in the shape of the API's."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec
from aiohttp import hdrs, web

from gpuruntime.errors import GpuRuntimeError


class Code(StrEnum):
    INVALID_REQUEST = "invalid_request"
    TICKET_MISSING = "ticket_missing"
    TICKET_REFUSED = "ticket_refused"
    ANOTHER_ORIGIN = "another_origin"
    NOT_FOUND = "not_found"
    UNIT_UNKNOWN = "unit_unknown"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    BODY_TIMEOUT = "body_timeout"
    BODY_TOO_LARGE = "body_too_large"
    MISDIRECTED = "misdirected"
    TOO_MANY_CONNECTIONS = "too_many_connections"
    HEAD_TOO_LARGE = "head_too_large"
    INTERNAL_ERROR = "internal_error"
    UPSTREAM_FAULT = "upstream_fault"
    UNIT_WAKING = "unit_waking"
    UNIT_SUSPENDED = "unit_suspended"
    REVOCATION_UNKNOWN = "revocation_unknown"
    SERVICE_UNAVAILABLE = "service_unavailable"
    TIMEOUT = "timeout"


STATUSES: Final[Mapping[Code, int]] = {
    Code.INVALID_REQUEST: 400,
    Code.TICKET_MISSING: 401,
    Code.TICKET_REFUSED: 403,
    Code.ANOTHER_ORIGIN: 403,
    Code.NOT_FOUND: 404,
    Code.UNIT_UNKNOWN: 404,
    Code.METHOD_NOT_ALLOWED: 405,
    Code.BODY_TIMEOUT: 408,
    Code.BODY_TOO_LARGE: 413,
    Code.MISDIRECTED: 421,
    Code.TOO_MANY_CONNECTIONS: 429,
    Code.HEAD_TOO_LARGE: 431,
    Code.INTERNAL_ERROR: 500,
    Code.UPSTREAM_FAULT: 502,
    Code.UNIT_WAKING: 503,
    Code.UNIT_SUSPENDED: 503,
    Code.REVOCATION_UNKNOWN: 503,
    Code.SERVICE_UNAVAILABLE: 503,
    Code.TIMEOUT: 504,
}
RETRY_AFTER_SECONDS: Final = 2
_ASKS_TO_RETRY: Final = (429, 503)
# No browser shows an answer of ours as more than data, and none keeps it.
_HEADERS: Final[Mapping[str, str]] = {
    hdrs.CACHE_CONTROL: "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    hdrs.SERVER: "gpuruntime",
}
_SCHEME: Final = 'Bearer realm="gpuruntime"'


class GatewayError(GpuRuntimeError):
    """A refusal. `reason` says why a ticket does not count; the message contains no ticket.

    `state` is what the condition of a unit says if it is not ready. Only pages show it.
    """

    def __init__(self, code: Code, message: str, *, reason: str = "", state: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.state = state

    @property
    def status(self) -> int:
        return STATUSES[self.code]


def headers_of(error: GatewayError) -> dict[str, str]:
    """Return the headers of a refusal, whatever the shape of its body."""
    headers = dict(_HEADERS)
    if error.status in _ASKS_TO_RETRY:
        headers[hdrs.RETRY_AFTER] = str(RETRY_AFTER_SECONDS)
    if error.code is Code.TICKET_MISSING:
        headers[hdrs.WWW_AUTHENTICATE] = _SCHEME
    return headers


def error_answer(error: GatewayError) -> web.Response:
    """Return the answer to a caller, in the shape of the API's errors."""
    body: dict[str, Any] = {"code": error.code, "message": str(error), "details": []}
    if error.reason:
        body["reason"] = error.reason
    return web.Response(
        status=error.status,
        body=msgspec.json.encode({"error": body}),
        content_type="application/json",
        headers=headers_of(error),
    )
