"""Objects of one kind by name, and the object that decides when several share a name."""

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
    """Of one namespace: as the cache has them, or live, which the cache then hears of.

    What `missing` makes of a name is raised where there is no such object, or cannot be one.
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
        """None also for what this process has deleted."""
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
        """The one that is still there; `demand_same` raises where it was made of other words."""
        # While one is read, the cache may hear of the end of another.
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
        """Sorted by name, from the cache alone; and what to ask for after it, if it is not all."""
        place = (after.name,) if after else ()
        found = list(islice(self._ordered.after(place, scope), limit + 1))
        kept = found[:limit]
        return kept, kept[-1].metadata.key if len(found) > limit else None


def _place_of(value: StockPool | GPUStorage) -> Place:
    return (value.metadata.name,)


def pool_in_force(pools: Iterable[StockPool]) -> StockPool | None:
    """Until it is gone; the others are told to use its envelope.

    The oldest of those that have seeded, else the oldest: one that waits for another to go does
    not take the name from stock which was made meanwhile.
    """
    ordered = sorted(pools, key=_rank)
    return next((pool for pool in ordered if not validation.pool_problems(pool)), None)


def _rank(pool: StockPool) -> tuple[bool, float, str]:
    return (pool.status.seeded == 0, *provenance.seniority(pool))


def owner_of(templates: Iterable[GPUUnit]) -> GPUUnit | None:
    """Until it is gone; the others are told that they declare nothing."""
    return min(templates, key=provenance.seniority, default=None)
