"""Callers known by the cluster, which reviews their tokens and applies its own rules.

Doubt never admits a caller: if the cluster cannot be asked, the answer is 503.
"""

import asyncio
import hashlib
from typing import Final, TypeVar

import structlog
from multidict import MultiMapping

from gpuruntime.api.auth.access import Access, Place, Principal, Role
from gpuruntime.api.auth.auth_cache import AuthCache
from gpuruntime.api.auth.authentication import bearer_token
from gpuruntime.api.errors import DeniedError, NotServingError, UnauthenticatedError
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import ApiError, KubeError
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds.labels import GROUP
from gpuruntime.models.kubernetes.resources import Resource
from gpuruntime.models.kubernetes.reviews import (
    SUBJECT_ACCESS_REVIEWS,
    TOKEN_REVIEWS,
    ReviewedUser,
    SubjectAccessReview,
    TokenReview,
)
from gpuruntime.operations.options import Namespaces

# For at most this long, a withdrawn token or right still works, and a new one does not yet.
KEEP_YES_SECONDS: Final = 30.0
KEEP_NO_SECONDS: Final = 5.0
ASK_SECONDS: Final = 10.0

ReviewT = TypeVar("ReviewT", TokenReview, SubjectAccessReview)

log = structlog.get_logger()


class KubernetesGuard:
    """A guard that asks the cluster; it keeps tokens by their digests alone."""

    asks = True

    def __init__(self, client: Client, *, audience: str, namespaces: Namespaces) -> None:
        self._client = client
        self._audience = audience
        self._namespaces = {
            Place.INSTANCE: namespaces.instance,
            Place.STOCK: namespaces.stock,
            Place.ALL: "",
        }
        self._principals: AuthCache[Principal | None] = AuthCache(_keep_seconds)
        self._rights: AuthCache[bool] = AuthCache(_keep_seconds)

    async def principal_of(self, headers: MultiMapping[str]) -> Principal:
        token = bearer_token(headers)
        digest = hashlib.sha256(token.encode()).digest()
        principal = await self._principals.get(digest, lambda: self._review_token(token))
        if principal is None:
            raise UnauthenticatedError(
                f"the cluster does not know the token for the audience {self._audience}",
                is_given=True,
            )
        return principal

    async def demand(self, principal: Principal, access: Access) -> None:
        namespace = self._namespaces[access.place]
        is_allowed = await self._rights.get(
            (principal, access), lambda: self._review_access(principal, access, namespace)
        )
        if not is_allowed:
            where = f"in namespace {namespace}" if namespace else "in the whole cluster"
            raise DeniedError(
                f"{principal.name} may not {access}.{GROUP} {where}: "
                "the rules of the cluster do not allow it"
            )

    async def _review_token(self, token: str) -> Principal | None:
        spec: JsonObject = {"token": token, "audiences": [self._audience]}
        status = (await self._review(TOKEN_REVIEWS, spec)).status
        # An authenticator without audiences returns none: its token may be for the API server
        # alone.
        if not status.authenticated or self._audience not in status.audiences:
            return None
        return _principal(status.user) if status.user.username else None

    async def _review_access(self, principal: Principal, access: Access, namespace: str) -> bool:
        spec: JsonObject = {
            "user": principal.name,
            "uid": principal.uid,
            "groups": list(principal.groups),
            "extra": {name: list(values) for name, values in principal.extra},
            "resourceAttributes": {
                "verb": access.verb.value,
                "group": GROUP,
                "resource": access.resource,
                "subresource": access.subresource,
                "namespace": namespace,
            },
        }
        status = (await self._review(SUBJECT_ACCESS_REVIEWS, spec)).status
        return status.allowed and not status.denied

    async def _review(self, resource: Resource[ReviewT], spec: JsonObject) -> ReviewT:
        """Create a review. A malformed answer is not logged, as it may hold the token."""
        body: JsonObject = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "spec": spec,
        }
        try:
            async with asyncio.timeout(ASK_SECONDS):
                return await self._client.create(resource, body)
        except (KubeError, TimeoutError) as error:
            reason = str(error) if isinstance(error, ApiError) else type(error).__name__
            log.warning("caller review failed", review=resource.kind, reason=reason)
            raise NotServingError("the cluster cannot review callers now: retry later") from error


def _keep_seconds(verdict: Principal | bool | None) -> float:
    return KEEP_YES_SECONDS if verdict else KEEP_NO_SECONDS


def _principal(user: ReviewedUser) -> Principal:
    """Return the user as a caller that is bound to no tenant: the cluster's rules know none."""
    return Principal(
        name=user.username,
        role=Role.OPERATOR,
        uid=user.uid,
        groups=user.groups,
        extra=tuple(sorted(user.extra.items())),
    )
