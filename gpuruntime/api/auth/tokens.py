"""Callers known by tokens of a file: each has a name, a role, and optional tenants."""

import hashlib
from collections.abc import Callable, Mapping
from typing import TypeAlias

from multidict import MultiMapping

from gpuruntime.api.auth.access import Access, Principal, refusal_of
from gpuruntime.api.auth.authentication import bearer_token
from gpuruntime.api.errors import DeniedError, UnauthenticatedError

# Keyed by the SHA-256 of the token.
Principals: TypeAlias = Mapping[bytes, Principal]


class TokenGuard:
    """A guard that looks up digests of tokens. No caller can choose a digest, so timing leaks
    nothing.

    It reads the table for every request, so that a change counts at once.
    """

    asks = True

    def __init__(self, principals: Callable[[], Principals]) -> None:
        self._principals = principals

    async def principal_of(self, headers: MultiMapping[str]) -> Principal:
        digest = hashlib.sha256(bearer_token(headers).encode()).digest()
        principal = self._principals().get(digest)
        if principal is None:
            raise UnauthenticatedError("the token is not known here", is_given=True)
        return principal

    async def demand(self, principal: Principal, access: Access) -> None:
        if refusal := refusal_of(principal, access):
            raise DeniedError(refusal)
