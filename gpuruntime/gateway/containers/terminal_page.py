"""The terminal's page: an origin of its own for each unit, whose files all come from here.

The page needs no ticket, as it tells nothing. Its WebSocket needs the session of this origin.
"""

from collections.abc import Awaitable, Callable
from functools import cache
from importlib.resources import files
from secrets import token_urlsafe
from typing import Final, TypeAlias

from aiohttp import hdrs, web

from gpuruntime.gateway.containers.exec_session import ExecSessions
from gpuruntime.gateway.errors import Code, GatewayError
from gpuruntime.gateway.gate import Visitor, Wanted
from gpuruntime.gateway.origins import demand_own_origin
from gpuruntime.gateway.presentation import presented_by_browser
from gpuruntime.gateway.wake import Waker
from gpuruntime.models.requests.tickets import Use
from gpuruntime.tickets.addresses import GatewayAddress
from gpuruntime.tickets.tokens import TokenType

# Admits the browser of a request to the terminal of the unit with this slug. Raises GatewayError.
Admit: TypeAlias = Callable[[web.Request, str], Awaitable[Visitor]]

EXEC: Final = "/exec"
PAGE: Final = "index.html"
_SCRIPT, _STYLE, _TEXT = "text/javascript", "text/css", "text/plain"
FILES: Final = {
    PAGE: "text/html",
    "terminal.css": _STYLE,
    "terminal.js": _SCRIPT,
    "vendored/LICENSE.addon-fit": _TEXT,
    "vendored/LICENSE.xterm": _TEXT,
    "vendored/addon-fit.mjs": _SCRIPT,
    "vendored/xterm.css": _STYLE,
    "vendored/xterm.mjs": _SCRIPT,
}
# xterm.js writes style elements, which get the nonce, and attributes for colours of the program.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src-elem 'self' 'nonce-{nonce}'; "
    "style-src-attr 'unsafe-inline'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS: Final = {
    hdrs.CACHE_CONTROL: "no-store",
    hdrs.SERVER: "gpuruntime",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class TerminalAdmission:
    """Admits a browser by the session of the terminal's own origin."""

    def __init__(self, waker: Waker, address: GatewayAddress, *, has_plain_hosts: bool) -> None:
        self._waker = waker
        self._address = address
        self._has_plain_hosts = has_plain_hosts

    async def __call__(self, request: web.Request, slug: str) -> Visitor:
        scheme, headers = self._address.scheme, request.headers
        presented = presented_by_browser(headers, is_secure=scheme == "https")
        if presented.kind is TokenType.SESSION:
            own = f"{scheme}://{headers[hdrs.HOST]}"
            demand_own_origin(request.method, headers, own, is_upgrade=True)
        name = slug if self._has_plain_hosts else ""
        wanted = Wanted(use=Use.EXEC, slug=slug, name=name)
        return await self._waker.admit(presented, wanted, may_hold=True)


class TerminalPage:
    def __init__(self, sessions: ExecSessions, admit: Admit) -> None:
        self._sessions = sessions
        self._admit = admit

    async def serve(self, request: web.Request, slug: str) -> web.StreamResponse:
        """Serve a file of the page, or its session. Raise GatewayError."""
        if request.path == EXEC:
            return await self._sessions.serve(request, await self._admit(request, slug))
        name = request.path.removeprefix("/") or PAGE
        if name not in FILES or request.path == f"/{PAGE}":
            raise GatewayError(Code.NOT_FOUND, "the terminal has no such file")
        if request.method not in (hdrs.METH_GET, hdrs.METH_HEAD):
            raise GatewayError(Code.METHOD_NOT_ALLOWED, "the terminal's files are only read")
        nonce = token_urlsafe(16)
        content = _content(name)
        return web.Response(
            body=content.replace(b"{nonce}", nonce.encode()) if name == PAGE else content,
            content_type=FILES[name],
            charset="utf-8",
            headers={**_HEADERS, "Content-Security-Policy": _POLICY.format(nonce=nonce)},
        )


@cache
def _content(name: str) -> bytes:
    """Return a file, read once from this machine's disk."""
    return (files("gpuruntime") / "terminal" / name).read_bytes()
