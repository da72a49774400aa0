"""The guard of the route that resumes a unit: the gateway's wake tokens count there as well."""

from collections.abc import Callable
from datetime import datetime

from multidict import MultiMapping

from gpuruntime.api.auth.access import Access, Principal, Role
from gpuruntime.api.auth.authentication import Guard, bearer_token
from gpuruntime.tickets.keys import KeyRing
from gpuruntime.tickets.tokens import TokenRefusedError, TokenType, verify


class WakeGuard:
    """A guard that accepts a wake token, bound to its unit, and leaves other callers to `inner`.

    The gateway needs no right in the API for it, and can resume nothing else.
    """

    def __init__(
        self,
        inner: Guard,
        ring: Callable[[], KeyRing | None],
        *,
        now: Callable[[], datetime],
    ) -> None:
        self._inner = inner
        self._ring = ring
        self._now = now

    @property
    def asks(self) -> bool:
        return self._inner.asks

    async def principal_of(self, headers: MultiMapping[str]) -> Principal:
        if self._inner.asks and (uid := self._woken(bearer_token(headers))):
            return Principal(name=f"gateway:{uid}", role=Role.OPERATOR, unit_uid=uid)
        return await self._inner.principal_of(headers)

    async def demand(self, principal: Principal, access: Access) -> None:
        if not principal.unit_uid:
            await self._inner.demand(principal, access)

    def _woken(self, token: str) -> str:
        """Return the uid of the unit that a valid wake token is for, or nothing."""
        ring = self._ring()
        try:
            now = self._now().timestamp()
            return verify(token, TokenType.WAKE, ring, now).uid if ring else ""
        except TokenRefusedError:
            return ""
