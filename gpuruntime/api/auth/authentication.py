"""Authentication and authorisation before every route, before a body is read."""

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
from gpuruntime.concurrency.clock import loop_time

Next: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

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


@attrs.frozen(slots=True)
class CallerChecks:
    """A guard with its limits: `rate_limits` for each caller, `in_flight` for all together.

    `origins` applies only if callers are not identified.
    """

    guard: Guard
    rate_limits: RateLimits
    in_flight: InFlightLimit
    origins: BrowserOrigins = BrowserOrigins()


def guarded(
    access: Access | Open,
    handler: Next,
    checks: CallerChecks,
    further: Callable[[web.Request], Iterable[Access]] = nothing_further,
    *,
    lasts: bool = False,
) -> Next:
    """Return a handler that first checks the caller and its rights; open routes need no check."""
    if isinstance(access, Open):
        return handler

    guard = checks.guard

    async def counted(request: web.Request) -> web.StreamResponse:
        """Count unknown callers, too, as checking them is work."""
        with checks.in_flight.place(lasts=lasts):
            return await checked(request)

    async def checked(request: web.Request) -> web.StreamResponse:
        principal = await guard.principal_of(request.headers)
        request[PRINCIPAL] = principal
        if not guard.asks:
            checks.origins.demand(request.method, request.headers)
            return await handler(request)
        structlog.contextvars.bind_contextvars(caller=principal.name)
        with checks.rate_limits.use(principal.name, loop_time()):
            for needed in (access, *further(request)):
                await guard.demand(principal, needed)
            return await handler(request)

    return counted


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
