"""Checks of requests that browsers may be made to send while callers are not identified.

If callers send tokens, no other web site can send one. Without tokens, any page that an operator
opens could make the browser send requests here, from the operator's own machine.

So requests of another origin's page are refused. A process that serves this machine alone also
refuses host names that a stranger can own: such a name leads here only by DNS rebinding.
"""

import ipaddress
from collections.abc import Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

import attrs
from aiohttp import hdrs

from gpuruntime.api.errors import DeniedError

SITE: Final = "Sec-Fetch-Site"
MODE: Final = "Sec-Fetch-Mode"
_OWN: Final = ("same-origin", "none")
_READS: Final = ("GET", "HEAD")
LOCALHOST: Final = "localhost"


@attrs.frozen(kw_only=True, slots=True)
class BrowserOrigins:
    """Checks a request's origin; `is_local` says that all callers are on this machine.

    They then have to use an address or a name without a public domain.
    """

    is_local: bool = False

    def demand(self, method: str, headers: Mapping[str, str]) -> None:
        """Raise DeniedError for a foreign host name or a foreign origin."""
        host = headers.get(hdrs.HOST, "")
        if self.is_local and not is_near(host):
            raise DeniedError(
                f"the host name {host} is refused without authentication: use "
                "localhost or an address, or set auth.allowUnauthenticated: true"
            )
        if is_of_another_page(method, headers):
            raise DeniedError(
                "a page of another origin may not call: without authentication only pages "
                "of this server may"
            )


def is_of_another_page(method: str, headers: Mapping[str, str]) -> bool:
    """Return whether a page of another origin sent it; links and plain programs pass."""
    site = headers.get(SITE, "")
    if site:
        is_link = method in _READS and headers.get(MODE, "") == "navigate"
        return site not in _OWN and not is_link
    origin = headers.get(hdrs.ORIGIN, "")
    return bool(origin) and urlsplit(origin).netloc.lower() != headers.get(hdrs.HOST, "").lower()


@lru_cache(maxsize=256)  # callers mostly repeat theirs
def is_near(host: str) -> bool:
    """Return whether a Host header is an address, a name without a domain, or absent."""
    name = _name_of(host)
    if name is None:
        return False
    return "." not in name or name.endswith(f".{LOCALHOST}") or _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _name_of(host: str) -> str | None:
    """Return the host's name without its port, or None if it is malformed."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".") if host else ""
    except ValueError:
        return None
