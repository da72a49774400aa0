"""Inventory of a pool: its stock as known now, and guarded writes to pool and stock."""

from collections.abc import Callable

import attrs

from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import ConflictError
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.pools import STOCK_POOLS, StockPool
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.operations.lookup.caches import POOL
from gpuruntime.reconcilers.caches import SOURCE_POOL, Caches
from gpuruntime.reconcilers.stock.pool_plan import Stocktaking, take_stock
from gpuruntime.reconcilers.stock.reconciler import delete_stock
from gpuruntime.reconcilers.stock.seeding import Seeder
from gpuruntime.reconcilers.unit.start_plan import Term


@attrs.frozen(kw_only=True, slots=True)
class PoolInventory:
    """PoolInventory counts a pool's stock. Refill, retirement and dissolution share it."""

    client: Client
    caches: Caches
    seeder: Seeder
    term: Callable[[], Term]

    def take_stock(self, pool: StockPool) -> Stocktaking:
        name = pool.metadata.name
        living = (
            unit
            for unit in self.caches.stock.store.by_index(POOL, name)
            if provenance.is_of_pool(unit, pool)
        )
        return take_stock(pool, living, self.caches.units.store.by_index(SOURCE_POOL, name))

    def unsettled_seconds(self, pool: StockPool) -> float:
        """Return for how many more seconds a create of the pool's stock may still land."""
        return max(self.seeder.unsettled_seconds(pool), self.term().unsettled_seconds)

    async def remove(self, units: tuple[GPUUnit, ...]) -> None:
        """Delete the units; raise ConflictError at the end if one has changed meanwhile.

        A changed unit may have been claimed. It is left alone, and counted again by the retry.
        """
        stale: ConflictError | None = None
        for unit in units:
            try:
                await delete_stock(self.client, unit)
            except ConflictError as error:
                stale = error
        if stale is not None:
            raise stale

    async def patch(
        self, pool: StockPool, patch: JsonObject, *, subresource: str = ""
    ) -> StockPool:
        written = await self.client.patch(
            STOCK_POOLS,
            pool.metadata.key,
            patch,
            resource_version=pool.metadata.resourceVersion,
            subresource=subresource,
        )
        self.caches.pools.write_through(written)
        return written
