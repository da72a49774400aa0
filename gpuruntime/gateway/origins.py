"""The rule of origins: no page but the unit's own acts with a browser's session.

Units are siblings below one domain, so browsers may treat them as one site and send cookies along.
SameSite is no protection between them.
"""

from collections.abc import Iterable
from typing import Final

from multidict import MultiMapping

from gpuruntime.gateway.errors import Code, GatewayError

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_SITES: Final = frozenset({"same-origin", "none"})


def demand_own_origin(
    method: str, headers: MultiMapping[str], own: str, *, is_upgrade: bool
) -> None:
    """Raise GatewayError unless the request comes from this origin, or is a navigation to it."""
    if not _is_allowed(method, headers, own, is_upgrade=is_upgrade):
        raise GatewayError(Code.ANOTHER_ORIGIN, "a page of another origin may not request this")


def _is_allowed(method: str, headers: MultiMapping[str], own: str, *, is_upgrade: bool) -> bool:
    origins, sites = headers.getall("Origin", []), headers.getall("Sec-Fetch-Site", [])
    is_own = _are(origins, frozenset({own})) and _are(sites, _OWN_SITES)
    if is_upgrade or method not in _SAFE:
        # Without either header nothing shows where the request comes from.
        return is_own and bool(origins or sites)
    return is_own or is_navigation(method, headers)


def is_navigation(method: str, headers: MultiMapping[str]) -> bool:
    """Return whether a browser opens this as its page; a frame of another page does not count."""
    return (
        method == "GET"
        and headers.get("Sec-Fetch-Mode") == "navigate"
        and headers.get("Sec-Fetch-Dest", "document") == "document"
    )


def _are(values: Iterable[str], allowed: frozenset[str]) -> bool:
    return all(value in allowed for value in values)
