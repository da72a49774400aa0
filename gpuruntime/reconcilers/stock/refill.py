"""Refill of a pool: create missing stock, record it in the status, delete the surplus."""

from collections.abc import Callable
from datetime import datetime
from math import inf
from typing import Final

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.controller.controller import Result
from gpuruntime.kube.events import EventRecorder, record_note
from gpuruntime.models.encoding import codec
from gpuruntime.models.kinds.pools import STOCK_POOLS, StockPool
from gpuruntime.models.kinds.reasons import PoolReason
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.reconcilers.children.refusals import REFUSED_SECONDS
from gpuruntime.reconcilers.events import pool_note
from gpuruntime.reconcilers.stock.inventory import PoolInventory
from gpuruntime.reconcilers.stock.pool_plan import Stocktaking, plan, recordable
from gpuruntime.reconcilers.stock.pool_status import PoolVerdict, pool_status, pool_verdict
from gpuruntime.reconcilers.stock.retirement import PoolRetirement
from gpuruntime.reconcilers.stock.seeding import Seeder

# A pool's status is written at most this often, however fast its units change.
REPORT_SECONDS: Final = 1.0


class PoolRefill:
    def __init__(
        self,
        *,
        inventory: PoolInventory,
        seeder: Seeder,
        retirement: PoolRetirement,
        recorder: EventRecorder,
        now: Callable[[], datetime],
    ) -> None:
        self._inventory = inventory
        self._seeder = seeder
        self._retirement = retirement
        self._recorder = recorder
        self._now = now
        # Loop time at which this process last wrote the status of each pool.
        self._reported: dict[Key, float] = {}

    async def refill(self, pool: StockPool) -> Result:
        """Record ordinals before any unit is deleted, so that none is ever used again."""
        stock, refused = self._inventory.take_stock(pool), ""
        creates = plan(pool, stock).creates
        if creates:
            refused = await self._seeder.make(pool, creates)
            stock = self._inventory.take_stock(pool)
        verdict = pool_verdict(pool, stock)
        if refused:
            verdict = PoolVerdict(reason=PoolReason.STOCK_SYNC_FAILED, message=refused)
        pool, seconds = await self.report(pool, stock, verdict)
        step = plan(pool, stock)
        await self._inventory.remove(step.removes)
        delays = [seconds, await self._retirement.retire(pool, stock)]
        if step.creates:
            delays.append(REFUSED_SECONDS if refused else 0.0)
        if stock.highest > pool.status.seeded:
            delays.append(self._inventory.unsettled_seconds(pool) or None)
        return Result.earliest(*delays)

    async def report(
        self, pool: StockPool, stock: Stocktaking, verdict: PoolVerdict
    ) -> tuple[StockPool, float | None]:
        """Write the status; return the pool, and for how long a changed status has to wait."""
        is_settled = not self._inventory.unsettled_seconds(pool)
        recorded = recordable(pool, stock) if is_settled else pool.status.seeded
        status = pool_status(pool, stock, verdict, recorded=recorded, now=self._now())
        if status == pool.status:
            return pool, None
        now = loop_time()
        left = self._reported.get(pool.metadata.key, -inf) + REPORT_SECONDS - now
        if left > 0:
            return pool, left
        written = await self._inventory.patch(
            pool, {"status": codec.to_json(status)}, subresource="status"
        )
        self._reported[pool.metadata.key] = now
        note = pool_note(pool, status)
        if note is not None:
            record_note(self._recorder, STOCK_POOLS, pool, note)
        return written, None

    def forget(self, key: Key) -> None:
        self._seeder.forget(key)
        self._reported.pop(key, None)
