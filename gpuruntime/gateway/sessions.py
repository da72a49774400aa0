"""The entrance of browsers: an entry within a URL becomes a session, the cookie of one origin."""

import re
from collections.abc import Callable
from datetime import datetime
from random import Random
from typing import Final
from urllib.parse import quote

import attrs
from aiohttp import hdrs, web

from gpuruntime.gateway.errors import Code, GatewayError
from gpuruntime.gateway.gate import Gate, Presented, Wanted, refused
from gpuruntime.gateway.presentation import cookie_name
from gpuruntime.tickets.keys import KeyRing
from gpuruntime.tickets.tokens import Refusal, TokenType, sign

# Characters of a URL's path and query that need no escape.
_PLAIN: Final = "/?#[]@!$&'()*+,;=:%-._~"
# Browsers read `//host` and `/\\host` as another origin.
_OWN_PATH: Final = re.compile(r"/(?![/\\])[^\x00-\x20\x7f\\]*")


class Sessions:
    def __init__(
        self,
        gate: Gate,
        ring: Callable[[], KeyRing | None],
        *,
        now: Callable[[], datetime],
        rng: Random,
        is_secure: bool,
    ) -> None:
        self._gate = gate
        self._ring = ring
        self._now = now
        self._rng = rng
        self._is_secure = is_secure
        # Entries that were used at this replica, with their end in Unix seconds.
        self._used: dict[str, int] = {}

    def enter(self, request: web.Request, wanted: Wanted) -> web.Response:
        """Return the redirect that sets the session's cookie. Raise GatewayError."""
        if request.method != hdrs.METH_GET:
            raise GatewayError(Code.METHOD_NOT_ALLOWED, "only GET enters")
        entry = Presented(kind=TokenType.ENTRY, token=request.query.get("ticket", ""))
        claims, ring, now = self._gate.recognize(entry, wanted).claims, self._ring(), self._now()
        if ring is None or claims.until is None or not self._is_first(claims.jti, claims.exp):
            raise refused(Refusal.EXPIRED)
        session = attrs.evolve(
            claims, jti=f"{self._rng.getrandbits(128):032x}", exp=claims.until, until=None
        )
        seconds = max(0, claims.until - int(now.timestamp()))
        cookie = (
            f"{cookie_name(is_secure=self._is_secure)}="
            f"{sign(session, TokenType.SESSION, ring.signing)}; Path=/; Max-Age={seconds}; "
            f"HttpOnly; SameSite=Lax{'; Secure' if self._is_secure else ''}"
        )
        return web.Response(
            status=303,
            headers={
                hdrs.LOCATION: _own_path(request.query.get("to", "/")),
                hdrs.SET_COOKIE: cookie,
                hdrs.CACHE_CONTROL: "no-store",
                hdrs.SERVER: "gpuruntime",
                "Referrer-Policy": "no-referrer",
            },
        )

    def _is_first(self, jti: str, until: int) -> bool:
        """Return whether this replica has not seen the entry yet."""
        now = self._now().timestamp()
        self._used = {each: end for each, end in self._used.items() if end > now}
        is_first = jti not in self._used
        self._used[jti] = until
        return is_first


def _own_path(text: str) -> str:
    """Return the path if it is one of this origin, or the root."""
    return quote(text, safe=_PLAIN) if _OWN_PATH.fullmatch(text) else "/"
