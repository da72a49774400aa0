"""Dissolution of a deleted pool: its unclaimed stock is deleted before its finalizer."""

from typing import Final

import attrs

from gpuruntime.controller.controller import DONE, Result
from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.pools import STOCK_POOLS, StockPool
from gpuruntime.operations.tombstones import Tombstones
from gpuruntime.reconcilers.stock.inventory import PoolInventory
from gpuruntime.reconcilers.tombstones import ensure_tombstone

FINALIZER: Final = f"{labels.GROUP}/stock"


@attrs.frozen(kw_only=True, slots=True)
class PoolDissolution:
    inventory: PoolInventory
    tombstones: Tombstones

    async def dissolve(self, pool: StockPool) -> Result:
        """Delete unclaimed units; claimed ones finish their hand-off without the pool.

        While a second create may still land, stock above the recorded ordinal stays, and the pool
        with it.
        """
        if FINALIZER not in pool.metadata.finalizers:
            return DONE
        stock, seeded = self.inventory.take_stock(pool), pool.status.seeded
        left = self.inventory.unsettled_seconds(pool) if stock.highest > seeded else 0.0
        going = tuple(
            unit for unit in stock.unclaimed if not left or provenance.ordinal_of(unit) <= seeded
        )
        await self.inventory.remove(going)
        if left:
            return Result(requeue_after_seconds=left)
        if going:
            return DONE
        await ensure_tombstone(self.tombstones, STOCK_POOLS.kind, pool)
        others = [each for each in pool.metadata.finalizers if each != FINALIZER]
        await self.inventory.patch(pool, {"metadata": {"finalizers": others}})
        return DONE
