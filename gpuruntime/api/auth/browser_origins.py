"""What browsers may be made to send while nobody is asked who calls.

Where callers bring tokens, no other web site can send one. Where they bring none, any page that
an operator looks at could have the browser send requests here, from the operator's own machine.
So requests that another origin's page makes are refused, and a process that serves this machine
alone answers to no name that a stranger can own: such a name leads here because it was made to.
"""

import ipaddress
from collections.abc import Mapping
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
    """`is_local`: whoever calls is on this machine, and calls it by a name of its own."""

    is_local: bool = False

    def demand(self, method: str, headers: Mapping[str, str]) -> None:
        """Raises DeniedError."""
        host = headers.get(hdrs.HOST, "")
        if self.is_local and not is_near(host):
            raise DeniedError(
                f"nothing is served under the name {host}: while nobody is asked who calls, use "
                "localhost or an address, or say auth.allowUnauthenticated: true"
            )
        if is_of_another_page(method, headers):
            raise DeniedError(
                "a page of another origin may not call: without auth.mode only pages that are "
                "served here may"
            )


def is_of_another_page(method: str, headers: Mapping[str, str]) -> bool:
    """Programs that are no browsers send none of these headers, and a link may lead here."""
    site = headers.get(SITE, "")
    if site:
        is_link = method in _READS and headers.get(MODE, "") == "navigate"
        return site not in _OWN and not is_link
    origin = headers.get(hdrs.ORIGIN, "")
    return bool(origin) and urlsplit(origin).netloc.lower() != headers.get(hdrs.HOST, "").lower()


def is_near(host: str) -> bool:
    """By a Host header: an address, a name without a domain, or none, which no browser sends."""
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
    """None where it is no name at all."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".") if host else ""
    except ValueError:
        return None
