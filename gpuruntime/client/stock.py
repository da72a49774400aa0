"""Stock over REST: seed units, follow their jobs, and keep pools."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

from gpuruntime.client.messages import Page, Reply, path_of
from gpuruntime.client.requests import document_of, named
from gpuruntime.client.resource import PAGE_ITEMS, ResourceCalls, every
from gpuruntime.client.retries import Repeat
from gpuruntime.models.requests.pools import CreatePool, SeedStock, UpdatePool
from gpuruntime.models.views.operators import Job
from gpuruntime.models.views.pools import PoolView

_OPERATOR = "operator"
_POOLS = "stockpools"
_JOBS = "jobs"


class Stock:
    """Seeding and its jobs; `units` with lifecycle `stock` reads the stock units themselves.

    A call that fails raises ClientError.
    """

    def __init__(self, calls: ResourceCalls) -> None:
        self._calls = calls

    async def seed(self, stock: SeedStock | Mapping[str, Any]) -> Reply[Job]:
        document = named(document_of(stock), "operationID")
        path = path_of(_OPERATOR, "stock-units")
        return await self._calls.post(path, Job, document, repeat=Repeat.ALWAYS)

    async def job(self, operation_id: str) -> Reply[Job]:
        return await self._calls.read(path_of(_OPERATOR, _JOBS, operation_id), Job)

    def jobs(self, *, limit: int = PAGE_ITEMS) -> AsyncIterator[Job]:
        async def fetch(cursor: str) -> Page[Job]:
            query = {"limit": limit, "cursor": cursor}
            return await self._calls.page(path_of(_OPERATOR, _JOBS), Job, query)

        return every(fetch)


class Pools:
    """Stock pools; a call that fails raises ClientError."""

    def __init__(self, calls: ResourceCalls) -> None:
        self._calls = calls

    async def create(self, pool: CreatePool | Mapping[str, Any]) -> Reply[PoolView]:
        document = named(document_of(pool), "operationID")
        path = path_of(_OPERATOR, _POOLS)
        return await self._calls.post(path, PoolView, document, repeat=Repeat.ALWAYS)

    async def get(self, name: str) -> Reply[PoolView]:
        return await self._calls.read(path_of(_OPERATOR, _POOLS, name), PoolView)

    def list(self, *, limit: int = PAGE_ITEMS) -> AsyncIterator[PoolView]:
        async def fetch(cursor: str) -> Page[PoolView]:
            query = {"limit": limit, "cursor": cursor}
            return await self._calls.page(path_of(_OPERATOR, _POOLS), PoolView, query)

        return every(fetch)

    async def update(
        self, name: str, change: UpdatePool | Mapping[str, Any], *, if_match: str = ""
    ) -> Reply[PoolView]:
        path = path_of(_OPERATOR, _POOLS, name)
        return await self._calls.put(path, PoolView, document_of(change), if_match=if_match)

    async def delete(self, name: str) -> None:
        await self._calls.delete(path_of(_OPERATOR, _POOLS, name))
