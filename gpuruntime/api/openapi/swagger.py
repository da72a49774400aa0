"""The OpenAPI document and a page that shows it, all from this process: no other host is asked."""

import hashlib
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from types import MappingProxyType
from typing import Final

import attrs
from swagger_ui_bundle import swagger_ui_path

from gpuruntime.api.auth.access import OPEN
from gpuruntime.api.http.routing import (
    HTML,
    JSON,
    LOCAL,
    TEXT,
    Answer,
    Call,
    Form,
    NoQuery,
    Reply,
    Route,
)
from gpuruntime.api.http.security_headers import POLICY
from gpuruntime.api.openapi.document import openapi_document
from gpuruntime.models.encoding import codec

DOCUMENT: Final = "/openapi.json"
PAGE: Final = "/swagger/index.html"
# Shorter addresses of the page, and where each leads: a relative one stays below a proxy's path.
_SHORT: Final = (("/swagger", "swagger/index.html"), ("/swagger/", "index.html"))
_ASSETS: Final = {
    "swagger-ui.css": "text/css",
    "swagger-ui-bundle.js": "text/javascript",
    "favicon-32x32.png": "image/png",
}
_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
_SCRIPT: Final = """
SwaggerUIBundle({url: "../openapi.json", dom_id: "#page", validatorUrl: null});
"""
_SCRIPT_HASH: Final = b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
# Allow scripts of this host and the one in the page, and requests to this host alone. The page's
# styles and images are inline.
_PAGE_POLICY: Final = {
    POLICY: (
        f"default-src 'none'; script-src 'self' 'sha256-{_SCRIPT_HASH}'; "
        "style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
}
_HTML: Final = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>gpuruntime API</title>
<link rel="icon" href="favicon-32x32.png">
<link rel="stylesheet" href="swagger-ui.css">
</head>
<body>
<div id="page"></div>
<script src="swagger-ui-bundle.js"></script>
<script>{_SCRIPT}</script>
</body>
</html>
""".encode()


def with_document(routes: Iterable[Route], *, version: str, is_guarded: bool) -> tuple[Route, ...]:
    """Return the routes, those that describe them, and those of the page's files, undescribed."""

    @cache
    def document() -> bytes:
        return codec.encode(openapi_document(described, version=version, is_guarded=is_guarded))

    described = (
        *routes,
        _route("getDocument", DOCUMENT, document, JSON, "The OpenAPI document of this service"),
        _route(
            *("showDocument", PAGE, lambda: _HTML, HTML, "The document as a page to try"),
            headers=_PAGE_POLICY,
        ),
    )
    assets = (
        _route(name, f"/swagger/{name}", partial(_asset, name), media_type, "A file of the page")
        for name, media_type in _ASSETS.items()
    )
    return (*described, *assets, *map(_led_on, _SHORT))


def _route(
    name: str,
    path: str,
    read: Callable[[], bytes],
    media_type: str,
    summary: str,
    *,
    headers: Mapping[str, str] = _NO_HEADERS,
) -> Route:
    async def handler(_: Call[NoQuery, None]) -> Reply:
        return Reply(data=read(), headers=headers)

    return Route(
        name=name,
        method="GET",
        path=path,
        access=OPEN,
        handler=handler,
        summary=summary,
        answers=(Answer(status=200, description=summary, form=Form.RAW, media_type=media_type),),
        errors=LOCAL,
        needs_cluster=False,
        is_untimed=True,
        tag="document",
    )


def _led_on(short: tuple[str, str]) -> Route:
    path, target = short

    async def handler(_: Call[NoQuery, None]) -> Reply:
        return Reply(status=308, data=b"", headers={"Location": target})

    return attrs.evolve(
        _route(path, path, lambda: b"", TEXT, "A short address of the page"),
        handler=handler,
        answers=(Answer(status=308, description="Its address.", form=Form.RAW, media_type=TEXT),),
    )


@cache
def _asset(name: str) -> bytes:
    """Return a file, read once from this machine's disk."""
    content: bytes = (swagger_ui_path / name).read_bytes()
    return content
