"""Guards: who calls, and whether the caller may."""

import re
from collections.abc import Iterable
from typing import Final, Protocol

from aiohttp import hdrs, web
from multidict import MultiMapping

from gpuruntime.api.auth.access import ANYBODY, Access, Principal
from gpuruntime.api.errors import UnauthenticatedError

PRINCIPAL: Final = web.RequestKey("principal", Principal)
# The form of RFC 6750; a token of Kubernetes has about 1,000 characters.
_BEARER: Final = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +([A-Za-z0-9._~+/-]{1,8000}=*)")


def nothing_further(_: web.Request) -> Iterable[Access]:
    return ()


class Guard(Protocol):
    """Identifies and judges callers; `asks` says whether callers have to identify themselves."""

    @property
    def asks(self) -> bool: ...

    async def principal_of(self, headers: MultiMapping[str]) -> Principal:
        """Return the caller; raise UnauthenticatedError, or NotServingError if it cannot be
        checked.
        """
        ...

    async def demand(self, principal: Principal, access: Access) -> None:
        """Raise DeniedError, or NotServingError if the right cannot be checked."""
        ...


class NoAuthentication:
    """Callers are not identified: every request that reaches the process is served."""

    asks = False

    async def principal_of(self, _: MultiMapping[str]) -> Principal:
        return ANYBODY

    async def demand(self, principal: Principal, access: Access) -> None:
        pass


def bearer_token(headers: MultiMapping[str]) -> str:
    """Return the token; raise UnauthenticatedError, whose message never holds what was sent."""
    given = headers.getall(hdrs.AUTHORIZATION, [])
    if not given:
        raise UnauthenticatedError(
            "authentication is required: send Authorization: Bearer <token>"
        )
    found = _BEARER.fullmatch(given[0]) if len(given) == 1 else None
    if found is None:
        raise UnauthenticatedError(
            "the header Authorization is malformed: send exactly one, as Bearer <token>",
            is_given=True,
        )
    return found[1]
