"""The console's page and its files, all from this process: the browser asks no other host.

Its policy lets it load and run files of this host alone, and nothing that a text brings along.
"""

from functools import cache
from importlib.resources import files
from typing import Final

from gpuruntime.api.auth.access import OPEN
from gpuruntime.api.http.routing import (
    HTML,
    LOCAL,
    TEXT,
    Answer,
    Call,
    Form,
    Handler,
    NoQuery,
    Reply,
    Route,
)
from gpuruntime.api.http.security_headers import POLICY

CONSOLE: Final = "/console/"
PAGE: Final = "index.html"
_SCRIPT: Final = "text/javascript"
MEDIA_TYPES: Final = {".html": HTML, ".css": "text/css", ".js": _SCRIPT, ".svg": "image/svg+xml"}
PAGE_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    POLICY: PAGE_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def console_files() -> tuple[Route, ...]:
    """Return open routes: the page itself asks for a token, and sends it for all that it shows."""
    page = _route(CONSOLE, PAGE)
    others = (_route(f"{CONSOLE}{name}", name) for name in file_names() if name != PAGE)
    return (_led_on("/"), _led_on(CONSOLE.rstrip("/")), page, *others)


@cache
def file_names() -> tuple[str, ...]:
    folder = files("gpuruntime") / "console"
    names = (each.name for each in folder.iterdir() if each.is_file())
    return tuple(sorted(name for name in names if _suffix(name) in MEDIA_TYPES))


def _route(path: str, name: str) -> Route:
    async def handler(_: Call[NoQuery, None]) -> Reply:
        return Reply(data=_content(name), headers=HEADERS)

    media_type = f"{MEDIA_TYPES[_suffix(name)]}; charset=utf-8"
    answer = Answer(status=200, description="A file.", form=Form.RAW, media_type=media_type)
    return _open_route(path, handler, answer)


def _led_on(path: str) -> Route:
    async def handler(_: Call[NoQuery, None]) -> Reply:
        return Reply(status=308, data=b"", headers={**HEADERS, "Location": CONSOLE})

    answer = Answer(status=308, description="Where it is.", form=Form.RAW, media_type=TEXT)
    return _open_route(path, handler, answer)


def _open_route(path: str, handler: Handler, answer: Answer) -> Route:
    return Route(
        name="showConsole",
        method="GET",
        path=path,
        access=OPEN,
        handler=handler,
        summary="The console",
        answers=(answer,),
        errors=LOCAL,
        needs_cluster=False,
        is_untimed=True,
        tag="console",
    )


@cache
def _content(name: str) -> bytes:
    """Return a file, read once from this machine's disk."""
    return (files("gpuruntime") / "console" / name).read_bytes()


def _suffix(name: str) -> str:
    return f".{name.rpartition('.')[2]}"
