"""Secrets over REST: stored, listed by name and deleted, and never read."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from gpuruntime.client.messages import Page, Reply, path_of
from gpuruntime.client.requests import document_of
from gpuruntime.client.resource import PAGE_ITEMS, ResourceCalls, every
from gpuruntime.client.retries import Repeat
from gpuruntime.models.requests.secrets import CreateSecret
from gpuruntime.models.views.secrets import SecretView

_SECRETS: Final = "secrets"


class Secrets:
    """Secrets; a call that fails raises ClientError."""

    def __init__(self, calls: ResourceCalls) -> None:
        self._calls = calls

    async def create(self, secret: CreateSecret | Mapping[str, Any]) -> Reply[SecretView]:
        """Store a secret, or replace all values of one."""
        document, path = document_of(secret), path_of(_SECRETS)
        return await self._calls.post(path, SecretView, document, repeat=Repeat.ALWAYS)

    def list(self, tenant: str = "", *, limit: int = PAGE_ITEMS) -> AsyncIterator[SecretView]:
        async def fetch(cursor: str) -> Page[SecretView]:
            query = {"tenant": tenant, "limit": limit, "cursor": cursor}
            return await self._calls.page(path_of(_SECRETS), SecretView, query)

        return every(fetch)

    async def delete(self, name: str, tenant: str = "") -> None:
        await self._calls.delete(path_of(_SECRETS, name), {"tenant": tenant})
