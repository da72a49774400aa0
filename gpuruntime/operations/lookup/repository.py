"""Objects of one kind by name, and the object that decides if several share a name."""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Generic, TypeVar

from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import NotFoundError
from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.pools import StockPool
from gpuruntime.models.kinds.storages import GPUStorage
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.names import is_dns_label
from gpuruntime.models.kubernetes.resources import Resource
from gpuruntime.operations.deletion import Deletions
from gpuruntime.operations.errors import OperationsError
from gpuruntime.operations.lookup.caches import OPERATION, Cache
from gpuruntime.operations.lookup.ordering import Place
from gpuruntime.operations.lookup.scopes import EVERYTHING, Scope, ScopedCache
from gpuruntime.operations.updates import rewrite
from gpuruntime.strict import validation

ObjectT = TypeVar("ObjectT", StockPool, GPUStorage)


class Repository(Generic[ObjectT]):
    """Objects of one kind in one namespace, from the cache or read live.

    A live read also updates the cache. If an object does not exist, or its name is not valid, the
    error that `missing` returns is raised.
    """

    def __init__(
        self,
        resource: Resource[ObjectT],
        *,
        client: Client,
        cache: Cache[ObjectT],
        namespace: str,
        deletions: Deletions,
        missing: Callable[[str], OperationsError],
    ) -> None:
        self._resource: Resource[ObjectT] = resource
        self._client = client
        self._cache: Cache[ObjectT] = cache
        self._namespace = namespace
        self._deletions = deletions
        self._missing = missing
        self._ordered: ScopedCache[ObjectT] = ScopedCache(cache, _place_of)

    def key(self, name: str) -> Key:
        if not is_dns_label(name):
            raise self._missing(name)
        return Key(self._namespace, name)

    def cached(self, name: str) -> ObjectT | None:
        """Return the object from the cache, or None if unknown or deleted by this process."""
        held = self._cache.store.get(self.key(name))
        return None if held is None or self._deletions.has_deleted(held) else held

    async def live(self, name: str) -> ObjectT:
        found = await self.read(self.key(name))
        if found is None:
            raise self._missing(name)
        return found

    async def read(self, key: Key) -> ObjectT | None:
        try:
            found = await self._client.get(self._resource, key)
        except NotFoundError:
            return None
        self._cache.write_through(found)
        return found

    async def of_operation(
        self, operation_id: str, demand_same: Callable[[ObjectT], ObjectT]
    ) -> ObjectT | None:
        """Return the operation's object that still exists, or None.

        `demand_same` raises an error if another request created the object.
        """
        # While one object is read, the cache may receive the deletion of another.
        for cached in tuple(self._cache.store.by_index(OPERATION, operation_id)):
            demand_same(cached)
            if live := await self.read(cached.metadata.key):
                return demand_same(live)
        return None

    async def rewrite(self, name: str, edit: Callable[[ObjectT], ObjectT]) -> ObjectT:
        try:
            written = await rewrite(self._client, self._resource, self.key(name), edit)
        except NotFoundError as error:
            raise self._missing(name) from error
        self._cache.write_through(written)
        return written

    def page(
        self, limit: int, after: Key | None, scope: Scope = EVERYTHING
    ) -> tuple[list[ObjectT], Key | None]:
        """Return a page sorted by name, from the cache alone, and its last key if more follow."""
        place = (after.name,) if after else ()
        found = list(islice(self._ordered.after(place, scope), limit + 1))
        kept = found[:limit]
        return kept, kept[-1].metadata.key if len(found) > limit else None


def _place_of(value: StockPool | GPUStorage) -> Place:
    return (value.metadata.name,)


def pool_in_force(pools: Iterable[StockPool]) -> StockPool | None:
    """Return the pool that decides the envelope until it is gone. Others get a condition instead.

    It is the oldest valid pool that has seeded, else the oldest valid pool. So a pool that waited
    for another one to be deleted does not take the name from stock that was created meanwhile.
    """
    ordered = sorted(pools, key=_rank)
    return next((pool for pool in ordered if not validation.pool_problems(pool)), None)


def _rank(pool: StockPool) -> tuple[bool, float, str]:
    return (pool.status.seeded == 0, *provenance.seniority(pool))


def owner_of(templates: Iterable[GPUUnit]) -> GPUUnit | None:
    """Return the oldest unit that declares the function. Newer ones get a condition instead."""
    return min(templates, key=provenance.seniority, default=None)
