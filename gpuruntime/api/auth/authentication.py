"""The door before every route: who calls, and whether they may, before a body is read."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Protocol, TypeAlias

import attrs
import structlog
from aiohttp import hdrs, web
from multidict import MultiMapping

from gpuruntime.api.auth.access import ANYBODY, Access, Open, Principal
from gpuruntime.api.auth.browser_origins import BrowserOrigins
from gpuruntime.api.auth.rate_limits import RateLimits
from gpuruntime.api.errors import UnauthenticatedError
from gpuruntime.api.http.in_flight import InFlightLimit

Next: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

PRINCIPAL: Final = web.RequestKey("principal", Principal)
# The form of RFC 6750; a token of Kubernetes has some 1,000 characters.
_BEARER: Final = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +([A-Za-z0-9._~+/-]{1,8000}=*)")


def nothing_further(_: web.Request) -> Iterable[Access]:
    return ()


class Guard(Protocol):
    """`asks` is whether callers have to say who they are."""

    @property
    def asks(self) -> bool: ...

    async def principal_of(self, headers: MultiMapping[str]) -> Principal:
        """Raises UnauthenticatedError, or NotServingError where nobody can tell."""
        ...

    async def demand(self, principal: Principal, access: Access) -> None:
        """Raises DeniedError, or NotServingError where nobody can tell."""
        ...


class NoAuthentication:
    """Nobody is asked anything: whoever reaches the process is served."""

    asks = False

    async def principal_of(self, _: MultiMapping[str]) -> Principal:
        return ANYBODY

    async def demand(self, principal: Principal, access: Access) -> None:
        pass


@attrs.frozen(slots=True)
class CallerChecks:
    """A guard, and what bounds those it lets in: each that it knows, and all of them together.

    Where nobody is asked who calls, it matters whose page does.
    """

    guard: Guard
    allowances: RateLimits
    crowd: InFlightLimit
    origins: BrowserOrigins = BrowserOrigins()


def guarded(
    access: Access | Open,
    handler: Next,
    door: CallerChecks,
    further: Callable[[web.Request], Iterable[Access]] = nothing_further,
    *,
    lasts: bool = False,
) -> Next:
    """What the handler does is done for somebody who may ask for it."""
    if isinstance(access, Open):
        return handler

    guard = door.guard

    async def admitted(request: web.Request) -> web.StreamResponse:
        """Whoever is not known yet takes a place too: to judge callers is work."""
        with door.crowd.place(lasts=lasts):
            return await served(request)

    async def served(request: web.Request) -> web.StreamResponse:
        principal = await guard.principal_of(request.headers)
        request[PRINCIPAL] = principal
        if not guard.asks:
            door.origins.demand(request.method, request.headers)
            return await handler(request)
        structlog.contextvars.bind_contextvars(caller=principal.name)
        with door.allowances.use(principal.name, asyncio.get_running_loop().time()):
            for needed in (access, *further(request)):
                await guard.demand(principal, needed)
            return await handler(request)

    return admitted


def bearer_token(headers: MultiMapping[str]) -> str:
    """Raises UnauthenticatedError; its words never hold what was sent."""
    given = headers.getall(hdrs.AUTHORIZATION, [])
    if not given:
        raise UnauthenticatedError("say who calls: send Authorization: Bearer <token>")
    found = _BEARER.fullmatch(given[0]) if len(given) == 1 else None
    if found is None:
        raise UnauthenticatedError(
            "the header Authorization is not understood: send one, as Bearer <token>",
            is_given=True,
        )
    return found[1]
