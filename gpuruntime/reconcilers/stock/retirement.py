"""Retirement of a used-up pool: it is kept for the retention, then deleted."""

from collections.abc import Callable
from datetime import datetime, timedelta

import attrs
import structlog

from gpuruntime.kube.client import Client
from gpuruntime.models.kinds.pools import STOCK_POOLS, StockPool
from gpuruntime.models.kubernetes.timestamps import rfc3339
from gpuruntime.operations.tombstones import Tombstones
from gpuruntime.reconcilers.stock.inventory import PoolInventory
from gpuruntime.reconcilers.stock.pool_plan import Stocktaking
from gpuruntime.reconcilers.stock.pool_status import USED_UP_AT, is_used_up, used_up_at
from gpuruntime.reconcilers.tombstones import ensure_tombstone

log = structlog.get_logger()


@attrs.frozen(kw_only=True, slots=True)
class PoolRetirement:
    client: Client
    inventory: PoolInventory
    tombstones: Tombstones
    retention: timedelta
    now: Callable[[], datetime]

    async def retire(self, pool: StockPool, stock: Stocktaking) -> float | None:
        """Delete a used-up pool after the retention; return the seconds left, or None."""
        since = used_up_at(pool)
        if not is_used_up(pool, stock) or not pool.spec.replicas:
            if since is not None:
                await self._mark_used_up(pool, None)
            return None
        if since is None:
            since = self.now()
            await self._mark_used_up(pool, since)
        left = (since - self.now() + self.retention).total_seconds()
        if left > 0:
            return left
        await ensure_tombstone(self.tombstones, STOCK_POOLS.kind, pool)
        await self.client.delete(STOCK_POOLS, pool.metadata.key, uid=pool.metadata.uid)
        log.info("used-up pool removed")
        return None

    async def _mark_used_up(self, pool: StockPool, since: datetime | None) -> None:
        mark = rfc3339(since) if since else None
        await self.inventory.patch(pool, {"metadata": {"annotations": {USED_UP_AT: mark}}})
