"""Headers of every answer, so that no browser and no cache treats it as more than data.

A route may set its own policy or cache rule by that header on its answer, and change no other.
"""

from collections.abc import Mapping
from typing import Final

from aiohttp import hdrs, web

REQUEST_ID: Final = "X-Request-Id"
POLICY: Final = "Content-Security-Policy"
# For data: a browser that shows it loads, runs, frames and sends nothing.
CLOSED: Final = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_FIXED: Final = {
    str(hdrs.SERVER): "gpuruntime",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
}
_UNLESS_BROUGHT: Final = {str(hdrs.CACHE_CONTROL): "no-store", POLICY: CLOSED}
# A year, as browsers' preload lists ask for; without subdomains, which others may own.
_ONLY_TLS: Final = {"Strict-Transport-Security": "max-age=31536000"}


def common_headers(request_id: str, *, is_encrypted: bool) -> Mapping[str, str]:
    """Return the headers of an answer that sets none itself.

    The connection shows whether it is encrypted; no header of a caller counts.
    """
    only_tls = _ONLY_TLS if is_encrypted else {}
    return {**_UNLESS_BROUGHT, **_FIXED, **only_tls, REQUEST_ID: request_id}


def add_common_headers(
    response: web.StreamResponse, request_id: str, *, is_encrypted: bool
) -> None:
    """Add the headers to an answer before its head leaves."""
    headers = response.headers
    for name, value in _UNLESS_BROUGHT.items():
        headers.setdefault(name, value)
    headers.update(_FIXED)
    if is_encrypted:
        headers.update(_ONLY_TLS)
    headers[REQUEST_ID] = request_id
