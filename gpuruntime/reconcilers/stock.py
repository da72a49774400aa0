"""A stock unit made true: it holds its envelope, and a claim on it is brought to its end."""

import asyncio
from typing import Final, assert_never

import structlog

from gpuruntime.controller.result import DONE, Result
from gpuruntime.inventory import provenance
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import ConflictError, NotFoundError
from gpuruntime.models import labels, validation
from gpuruntime.models.metadata import Key
from gpuruntime.models.pools import STOCK_POOLS, StockPool
from gpuruntime.models.units import GPU_UNITS, GPUUnit
from gpuruntime.reconcilers.caches import Caches
from gpuruntime.reconcilers.handoff_plan import (
    GRACE_SECONDS,
    AwaitRecord,
    Consume,
    Doubt,
    Resolution,
    Rest,
    is_of_pool,
    is_recorded,
    resolve,
)
from gpuruntime.reconcilers.running import Runner
from gpuruntime.reconcilers.unit import invalid_verdict

log = structlog.get_logger()

# The pool's own event comes first; this is for the one that was missed.
RECORD_SECONDS: Final = 5.0


class StockReconciler:
    """Takes no timestamp of another machine: a grace runs on this process's clock alone."""

    def __init__(
        self,
        *,
        client: Client,
        caches: Caches,
        runner: Runner,
    ) -> None:
        self._client = client
        self._caches = caches
        self._runner = runner
        # Since when this process has seen a doubtful claim at this version, by the stock's uid.
        self._doubts: dict[Key, tuple[str, float]] = {}

    async def reconcile(self, key: Key) -> Result:
        stock = self._caches.stock.store.get(key)
        if stock is None or provenance.is_terminating(stock):
            self._doubts.pop(key, None)
            return DONE
        problems = validation.unit_problems(stock)
        if problems:
            await self._runner.report(stock, invalid_verdict(problems))
            return DONE
        if await self._is_orphan(stock):
            await self._delete(stock, "its pool is gone")
            return DONE
        resolution = self._resolve(stock, self._claimant(stock))
        if isinstance(resolution, Consume):
            await self._delete(stock, "consumed")
            return DONE
        await self._runner.run(stock)
        return await self._follow(self._caches.stock.store.get(key) or stock, resolution)

    async def _follow(self, stock: GPUUnit, resolution: Resolution) -> Result:
        match resolution:
            case Rest() | Consume():
                self._doubts.pop(stock.metadata.key, None)
                return DONE
            case AwaitRecord():
                return Result(requeue_after_seconds=RECORD_SECONDS)
            case Doubt():
                return await self._sit_out(stock)
            case _:
                assert_never(resolution)

    async def _sit_out(self, stock: GPUUnit) -> Result:
        """The grace counts from when this leader first saw the claim; a live look ends it."""
        loop_time = asyncio.get_running_loop().time()
        attempt = provenance.attempt_of(stock)
        known, since = self._doubts.get(stock.metadata.key, ("", 0.0))
        if known != attempt:
            since = loop_time
            self._doubts[stock.metadata.key] = (attempt, since)
        left = since + GRACE_SECONDS - loop_time
        if left > 0:
            return Result(requeue_after_seconds=left)
        if isinstance(self._resolve(stock, await self._live_claimant(stock)), Doubt):
            await self._free(stock)
        else:
            return Result(requeue_after_seconds=RECORD_SECONDS)
        return DONE

    def _resolve(self, stock: GPUUnit, claimant: GPUUnit | None) -> Resolution:
        return resolve(stock, claimant, is_recorded=is_recorded(stock, self._pool(stock)))

    def _claimant(self, stock: GPUUnit) -> GPUUnit | None:
        key = provenance.claimant_of(stock)
        return self._caches.units.store.get(key) if key else None

    async def _live_claimant(self, stock: GPUUnit) -> GPUUnit | None:
        key = provenance.claimant_of(stock)
        try:
            return await self._client.get(GPU_UNITS, key) if key else None
        except NotFoundError:
            return None

    def _pool(self, stock: GPUUnit) -> StockPool | None:
        name = stock.metadata.labels.get(labels.POOL, "")
        return self._caches.pools.store.get(Key(stock.metadata.namespace, name)) if name else None

    async def _is_orphan(self, stock: GPUUnit) -> bool:
        """Unclaimed stock of a pool that is gone, seen live: nobody would ever count it."""
        name = stock.metadata.labels.get(labels.POOL, "")
        if not name or provenance.is_claimed(stock):
            return False
        cached = self._pool(stock)
        if cached is not None and is_of_pool(stock, cached):
            return False
        try:
            live = await self._client.get(STOCK_POOLS, Key(stock.metadata.namespace, name))
        except NotFoundError:
            return True
        return not is_of_pool(stock, live)

    async def _free(self, stock: GPUUnit) -> None:
        freed = await self._client.patch(
            GPU_UNITS,
            stock.metadata.key,
            provenance.no_claim_marks(),
            resource_version=stock.metadata.resourceVersion,
        )
        self._doubts.pop(stock.metadata.key, None)
        self._caches.stock.write_through(freed)
        log.info("claim freed after its grace", claimant=str(provenance.claimant_of(stock)))

    async def _delete(self, stock: GPUUnit, why: str) -> None:
        try:
            await delete_stock(self._client, stock)
        except ConflictError:
            # Claimed or changed meanwhile: its event brings it back.
            return
        log.info("stock removed", why=why)


async def delete_stock(client: Client, stock: GPUUnit) -> None:
    """Every deletion of stock names uid and version: a claim that wins keeps its unit."""
    try:
        await client.delete(
            GPU_UNITS,
            stock.metadata.key,
            uid=stock.metadata.uid,
            resource_version=stock.metadata.resourceVersion,
        )
    except NotFoundError:
        return
