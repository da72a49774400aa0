"""What stands on every answer, whoever made it, so that no browser and no cache takes it for more.

A route brings its own policy, or another rule for caches, by putting the header on its answer;
nothing else of this can be changed by one.
"""

from collections.abc import Mapping
from typing import Final

from aiohttp import hdrs, web

REQUEST_ID: Final = "X-Request-Id"
POLICY: Final = "Content-Security-Policy"
# Data: a browser that is shown it loads, runs, frames and sends nothing.
CLOSED: Final = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_FIXED: Final = {
    str(hdrs.SERVER): "gpuruntime",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
}
_UNLESS_BROUGHT: Final = {str(hdrs.CACHE_CONTROL): "no-store", POLICY: CLOSED}
# A year, as browsers' own lists ask for; of this host alone, since others may be somebody else's.
_ONLY_TLS: Final = {"Strict-Transport-Security": "max-age=31536000"}


def marks(request_id: str, *, is_encrypted: bool) -> Mapping[str, str]:
    """Of an answer that brings nothing of its own.

    Whether it is encrypted is seen on the connection: no header of a caller can say so.
    """
    only_tls = _ONLY_TLS if is_encrypted else {}
    return {**_UNLESS_BROUGHT, **_FIXED, **only_tls, REQUEST_ID: request_id}


def put_marks(response: web.StreamResponse, request_id: str, *, is_encrypted: bool) -> None:
    """Before its head leaves."""
    brought = {name for name in _UNLESS_BROUGHT if name in response.headers}
    for name, value in marks(request_id, is_encrypted=is_encrypted).items():
        if name not in brought:
            response.headers[name] = value
