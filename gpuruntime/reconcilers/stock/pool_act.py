"""The writes of a pool's plan: to its stock, and to the pool itself except its status."""

from typing import assert_never

import attrs
import structlog

from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import ConflictError
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds.pools import STOCK_POOLS, StockPool
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.timestamps import rfc3339
from gpuruntime.operations.lookup.caches import Cache
from gpuruntime.operations.tombstones import Tombstones
from gpuruntime.reconcilers.stock.act import delete_stock
from gpuruntime.reconcilers.stock.pool_pass_plan import (
    FINALIZER,
    Adopt,
    CreateUnits,
    Intent,
    LetGo,
    MarkUsedUp,
    RemoveUnits,
    Retire,
)
from gpuruntime.reconcilers.stock.pool_plan import ORIGIN
from gpuruntime.reconcilers.stock.pool_status import USED_UP_AT
from gpuruntime.reconcilers.stock.seeding import Seeder
from gpuruntime.reconcilers.tombstones import ensure_tombstone

log = structlog.get_logger()


@attrs.frozen(kw_only=True, slots=True)
class PoolActor:
    client: Client
    pools: Cache[StockPool]
    seeder: Seeder
    tombstones: Tombstones

    async def act(self, pool: StockPool, intents: tuple[Intent, ...]) -> str:
        """Carry out the intents in their order; return why creates were refused, or nothing."""
        refused = ""
        for intent in intents:
            match intent:
                case Adopt():
                    await self._adopt(pool)
                case CreateUnits(ordinals):
                    refused = await self.seeder.make(pool, ordinals)
                case RemoveUnits(units):
                    await self._remove(units)
                case MarkUsedUp(since):
                    mark = rfc3339(since) if since else None
                    await self.patch(pool, {"metadata": {"annotations": {USED_UP_AT: mark}}})
                case Retire():
                    await ensure_tombstone(self.tombstones, STOCK_POOLS.kind, pool)
                    await self.client.delete(STOCK_POOLS, pool.metadata.key, uid=pool.metadata.uid)
                    log.info("used-up pool removed")
                case LetGo():
                    await ensure_tombstone(self.tombstones, STOCK_POOLS.kind, pool)
                    others = [each for each in pool.metadata.finalizers if each != FINALIZER]
                    await self.patch(pool, {"metadata": {"finalizers": others}})
                case _:
                    assert_never(intent)
        return refused

    async def patch(
        self, pool: StockPool, patch: JsonObject, *, subresource: str = ""
    ) -> StockPool:
        """Patch the pool and return it; raise ConflictError if it has changed since."""
        written = await self.client.patch(
            STOCK_POOLS,
            pool.metadata.key,
            patch,
            resource_version=pool.metadata.resourceVersion,
            subresource=subresource,
        )
        self.pools.write_through(written)
        return written

    async def _adopt(self, pool: StockPool) -> None:
        metadata: JsonObject = {"finalizers": [*pool.metadata.finalizers, FINALIZER]}
        if ORIGIN not in pool.metadata.annotations:
            metadata["annotations"] = {ORIGIN: pool.metadata.uid}
        await self.patch(pool, {"metadata": metadata})

    async def _remove(self, units: tuple[GPUUnit, ...]) -> None:
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
