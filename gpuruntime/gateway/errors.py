"""Refusals of the gateway: each code has one status, and an answer in the shape of the API's."""

from collections.abc import Mapping
from enum import StrEnum
from html import escape
from math import ceil
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
_RETRY_AFTER_SECONDS: Final = 2.0
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
    """A refusal. `reason` says why a ticket does not count; the message contains no ticket."""

    def __init__(self, code: Code, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason

    @property
    def status(self) -> int:
        return STATUSES[self.code]


def waiting_page(error: GatewayError) -> web.Response:
    """Return a page that a browser loads again by itself until the unit serves."""
    seconds = ceil(_RETRY_AFTER_SECONDS)
    text = (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        f"<meta http-equiv=refresh content={seconds}><title>Waiting</title>"
        f"<p>{escape(str(error))}</p>"
    )
    headers = {**_HEADERS, hdrs.RETRY_AFTER: str(seconds)}
    return web.Response(status=error.status, text=text, content_type="text/html", headers=headers)


def error_answer(error: GatewayError) -> web.Response:
    """Return the answer to a caller, in the shape of the API's errors."""
    body: dict[str, Any] = {"code": error.code, "message": str(error), "details": []}
    if error.reason:
        body["reason"] = error.reason
    headers = dict(_HEADERS)
    if error.status in _ASKS_TO_RETRY:
        headers[hdrs.RETRY_AFTER] = str(ceil(_RETRY_AFTER_SECONDS))
    if error.code is Code.TICKET_MISSING:
        headers[hdrs.WWW_AUTHENTICATE] = _SCHEME
    return web.Response(
        status=error.status,
        body=msgspec.json.encode({"error": body}),
        content_type="application/json",
        headers=headers,
    )
