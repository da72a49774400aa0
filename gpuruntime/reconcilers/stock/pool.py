"""A pool made true: stock made once per ordinal, surplus removed, what happened recorded."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from math import inf
from typing import Final

import attrs
import structlog

from gpuruntime.controller.controller import DONE, Result
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import ConflictError
from gpuruntime.kube.event_notes import tell
from gpuruntime.kube.events import EventRecorder
from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.envelopes import Envelope, envelope_of
from gpuruntime.models.kinds.pools import STOCK_POOLS, StockPool
from gpuruntime.models.kinds.reasons import PoolReason
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.timestamps import rfc3339
from gpuruntime.operations.lookup.caches import POOL, SPEC
from gpuruntime.operations.lookup.repository import pool_in_force
from gpuruntime.operations.tombstones import Tombstones
from gpuruntime.reconcilers.caches import SOURCE_POOL, Caches
from gpuruntime.reconcilers.events import pool_note
from gpuruntime.reconcilers.options import PodDefaults
from gpuruntime.reconcilers.stock.pool_plan import (
    ORIGIN,
    Stocktaking,
    plan,
    recordable,
    take_stock,
)
from gpuruntime.reconcilers.stock.pool_status import (
    USED_UP_AT,
    PoolVerdict,
    is_used_up,
    pool_status,
    pool_verdict,
    used_up_at,
)
from gpuruntime.reconcilers.stock.reconciler import delete_stock
from gpuruntime.reconcilers.stock.seeding import Seeder
from gpuruntime.reconcilers.tombstones import bury
from gpuruntime.reconcilers.unit.runner import REFUSED_SECONDS
from gpuruntime.reconcilers.unit.start_plan import Term
from gpuruntime.strict import validation

log = structlog.get_logger()

FINALIZER: Final = f"{labels.GROUP}/stock"
# A pool's status is written at most this often, whatever happens to its units.
REPORT_SECONDS: Final = 1.0


class PoolReconciler:
    def __init__(
        self,
        *,
        client: Client,
        caches: Caches,
        tombstones: Tombstones,
        defaults: PodDefaults,
        retention_seconds: float,
        recorder: EventRecorder,
        term: Callable[[], Term],
        now: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._caches = caches
        self._tombstones = tombstones
        self._defaults = defaults
        self._retention = timedelta(seconds=retention_seconds)
        self._recorder = recorder
        self._term = term
        self._now = now
        self._seeder = Seeder(client, caches.stock, defaults)
        # When (loop time) each pool's status was last written by this process.
        self._reported: dict[Key, float] = {}

    async def reconcile(self, key: Key) -> Result:
        pool = self._caches.pools.store.get(key)
        if pool is None:
            self._seeder.forget(key)
            self._reported.pop(key, None)
            return DONE
        if provenance.is_terminating(pool):
            return await self._dissolve(pool)
        refusal = self._refusal(pool)
        if refusal is not None:
            _, seconds = await self._report(pool, self._take_stock(pool), refusal)
            return Result(requeue_after_seconds=seconds or REFUSED_SECONDS)
        if FINALIZER not in pool.metadata.finalizers:
            pool = await self._adopt(pool)
        return await self._carry_out(pool)

    async def _carry_out(self, pool: StockPool) -> Result:
        """Recorded before anything is removed, so that no ordinal is ever used again."""
        stock, refused = self._take_stock(pool), ""
        creates = plan(pool, stock).creates
        if creates:
            refused = await self._seeder.make(pool, creates)
            stock = self._take_stock(pool)
        verdict = pool_verdict(pool, stock)
        if refused:
            verdict = PoolVerdict(reason=PoolReason.STOCK_SYNC_FAILED, message=refused)
        pool, seconds = await self._report(pool, stock, verdict)
        step = plan(pool, stock)
        await self._remove(step.removes)
        delays = [seconds, await self._retirement_seconds(pool, stock)]
        if step.creates:
            delays.append(REFUSED_SECONDS if refused else 0.0)
        if stock.highest > pool.status.seeded:
            delays.append(self._unsettled_seconds(pool) or None)
        return Result.earliest(*delays)

    async def _retirement_seconds(self, pool: StockPool, stock: Stocktaking) -> float | None:
        """The record of a finished operation is kept for the retention, then it goes."""
        since = used_up_at(pool)
        if not is_used_up(pool, stock) or not pool.spec.replicas:
            if since is not None:
                await self._mark_used_up(pool, None)
            return None
        if since is None:
            since = self._now()
            await self._mark_used_up(pool, since)
        left = (since - self._now() + self._retention).total_seconds()
        if left > 0:
            return left
        await bury(self._tombstones, STOCK_POOLS.kind, pool)
        await self._client.delete(STOCK_POOLS, pool.metadata.key, uid=pool.metadata.uid)
        log.info("used-up pool removed")
        return None

    def _refusal(self, pool: StockPool) -> PoolVerdict | None:
        problems = validation.pool_problems(pool)
        if problems:
            text = "; ".join(str(problem) for problem in problems)
            return PoolVerdict(reason=PoolReason.INVALID_SPEC, message=text)
        decides = pool_in_force(self._caches.pools.store.by_index(SPEC, pool.spec.specName))
        if decides is None or self._envelope(decides) == self._envelope(pool):
            return None
        text = (
            f"pool {decides.metadata.name} gives {pool.spec.specName} another envelope: "
            "use its cpu, memory, gpu and gpuProduct, or another specName"
        )
        return PoolVerdict(reason=PoolReason.SPEC_CONFLICT, message=text)

    def _envelope(self, pool: StockPool) -> Envelope:
        """With the defaults that its units get, since another pool may spell them out."""
        cpu, memory = (
            pool.spec.cpu or self._defaults.cpu,
            pool.spec.memory or self._defaults.memory,
        )
        return envelope_of(attrs.evolve(pool.spec, cpu=cpu, memory=memory))

    def _take_stock(self, pool: StockPool) -> Stocktaking:
        name = pool.metadata.name
        living = (
            unit
            for unit in self._caches.stock.store.by_index(POOL, name)
            if provenance.is_of_pool(unit, pool)
        )
        return take_stock(pool, living, self._caches.units.store.by_index(SOURCE_POOL, name))

    async def _remove(self, units: tuple[GPUUnit, ...]) -> None:
        """What changed meanwhile, perhaps by a claim, is left, and counted anew by a retry."""
        stale: ConflictError | None = None
        for unit in units:
            try:
                await delete_stock(self._client, unit)
            except ConflictError as error:
                stale = error
        if stale is not None:
            raise stale

    async def _dissolve(self, pool: StockPool) -> Result:
        """Unclaimed units go; claimed ones finish their hand-off without the pool.

        What is not recorded stays, and the pool with it, while a second create of it may land.
        """
        if FINALIZER not in pool.metadata.finalizers:
            return DONE
        stock, seeded = self._take_stock(pool), pool.status.seeded
        left = self._unsettled_seconds(pool) if stock.highest > seeded else 0.0
        going = tuple(
            unit for unit in stock.unclaimed if not left or provenance.ordinal_of(unit) <= seeded
        )
        await self._remove(going)
        if left:
            return Result(requeue_after_seconds=left)
        if going:
            return DONE
        await bury(self._tombstones, STOCK_POOLS.kind, pool)
        others = [each for each in pool.metadata.finalizers if each != FINALIZER]
        await self._patch(pool, {"metadata": {"finalizers": others}})
        return DONE

    async def _adopt(self, pool: StockPool) -> StockPool:
        """Before its first unit is made: what it is known by, and that it waits for us to end."""
        metadata: JsonObject = {"finalizers": [*pool.metadata.finalizers, FINALIZER]}
        if ORIGIN not in pool.metadata.annotations:
            metadata["annotations"] = {ORIGIN: pool.metadata.uid}
        return await self._patch(pool, {"metadata": metadata})

    async def _mark_used_up(self, pool: StockPool, since: datetime | None) -> None:
        mark = rfc3339(since) if since else None
        await self._patch(pool, {"metadata": {"annotations": {USED_UP_AT: mark}}})

    async def _report(
        self, pool: StockPool, stock: Stocktaking, verdict: PoolVerdict
    ) -> tuple[StockPool, float | None]:
        """The pool as it is then, and how long a change of its status has yet to wait."""
        is_settled = not self._unsettled_seconds(pool)
        recorded = recordable(pool, stock) if is_settled else pool.status.seeded
        status = pool_status(pool, stock, verdict, recorded=recorded, now=self._now())
        if status == pool.status:
            return pool, None
        loop_time = asyncio.get_running_loop().time()
        left = self._reported.get(pool.metadata.key, -inf) + REPORT_SECONDS - loop_time
        if left > 0:
            return pool, left
        written = await self._patch(pool, {"status": codec.to_json(status)}, subresource="status")
        self._reported[pool.metadata.key] = loop_time
        note = pool_note(pool, status)
        if note is not None:
            tell(self._recorder, STOCK_POOLS, pool, note)
        return written, None

    async def _patch(
        self, pool: StockPool, patch: JsonObject, *, subresource: str = ""
    ) -> StockPool:
        written = await self._client.patch(
            STOCK_POOLS,
            pool.metadata.key,
            patch,
            resource_version=pool.metadata.resourceVersion,
            subresource=subresource,
        )
        self._caches.pools.write_through(written)
        return written

    def _unsettled_seconds(self, pool: StockPool) -> float:
        """How much longer a create of the pool's stock may be on its way, whoever sent it."""
        return max(self._seeder.unsettled_seconds(pool), self._term().unsettled_seconds)
