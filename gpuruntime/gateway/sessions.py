"""The entrance of browsers: an entry within a URL becomes a session, the cookie of one origin."""

import re
from collections import OrderedDict
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


class UsedEntries:
    """The entries that were used at this replica, until they expire.

    Entries live equally long, so that the first used is nearly the first to expire. Each `add`
    forgets at the front, and its cost does not grow with their number.
    """

    def __init__(self) -> None:
        self._until: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._until)

    def add(self, jti: str, until: float, now: float) -> bool:
        """Return whether the entry was not used before. Times are in Unix seconds."""
        while self._until and next(iter(self._until.values())) <= now:
            self._until.popitem(last=False)
        if jti in self._until:
            return False
        self._until[jti] = until
        return True


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
        self._used = UsedEntries()

    def enter(self, request: web.Request, wanted: Wanted) -> web.Response:
        """Return the redirect that sets the session's cookie. Raise GatewayError."""
        if request.method != hdrs.METH_GET:
            raise GatewayError(Code.METHOD_NOT_ALLOWED, "only GET enters")
        entry = Presented(kind=TokenType.ENTRY, token=request.query.get("ticket", ""))
        claims, ring, now = self._gate.recognize(entry, wanted).claims, self._ring(), self._now()
        is_first = self._used.add(claims.jti, claims.exp, now.timestamp())
        if ring is None or claims.until is None or not is_first:
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


def _own_path(text: str) -> str:
    """Return the path if it is one of this origin, or the root."""
    return quote(text, safe=_PLAIN) if _OWN_PATH.fullmatch(text) else "/"
