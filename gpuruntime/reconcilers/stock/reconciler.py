"""Reconciler of stock units: it keeps a unit's envelope and resolves a claim on it."""

from typing import Final, TypeAlias, assert_never

import structlog

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.controller.controller import DONE, Result
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import NotFoundError
from gpuruntime.kube.events import EventRecorder, Note, record_note
from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.claim_timing import GRACE_SECONDS
from gpuruntime.models.kinds.pools import STOCK_POOLS, StockPool
from gpuruntime.models.kinds.units import GPU_UNITS, GPUUnit
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.reconcilers.caches import Caches
from gpuruntime.reconcilers.stock.claim_resolution_plan import (
    AwaitRecord,
    Consume,
    Doubt,
    Resolution,
    Rest,
    is_recorded,
    resolve,
)
from gpuruntime.reconcilers.unit.reconciler import UnitReconciler

log = structlog.get_logger()

# The pool's own event usually comes first; this is for a missed one.
RECORD_SECONDS: Final = 5.0

# The uid of the stock, and the attempt that claimed it.
ClaimVersion: TypeAlias = tuple[str, str]


class StockReconciler:
    """StockReconciler keeps stock units. It measures the grace by this process's clock alone."""

    def __init__(
        self,
        *,
        client: Client,
        caches: Caches,
        units: UnitReconciler,
        recorder: EventRecorder,
    ) -> None:
        self._client = client
        self._caches = caches
        self._units = units
        self._recorder = recorder
        # Doubtful claims by stock, with the loop time at which this process first saw each.
        self._doubts: dict[Key, tuple[ClaimVersion, float]] = {}

    async def reconcile(self, key: Key) -> Result:
        stock = self._caches.stock.store.get(key)
        if stock is None or provenance.is_terminating(stock):
            self._doubts.pop(key, None)
            return DONE
        pool = await self._pool(stock)
        if pool is None and provenance.is_orphaned(stock):
            await self._delete(stock, "its pool is gone")
            return DONE
        resolution = resolve(stock, self._claimant(stock), is_recorded=is_recorded(stock, pool))
        if isinstance(resolution, Consume):
            await self._delete(stock, "consumed")
            return DONE
        kept = await self._units.keep(key)
        followed = await self._follow(self._caches.stock.store.get(key) or stock, resolution)
        return Result.earliest(kept.requeue_after_seconds, followed.requeue_after_seconds)

    async def _follow(self, stock: GPUUnit, resolution: Resolution) -> Result:
        match resolution:
            case Rest() | Consume():
                self._doubts.pop(stock.metadata.key, None)
                return DONE
            case AwaitRecord():
                return Result(requeue_after_seconds=RECORD_SECONDS)
            case Doubt():
                return await self._free_after_grace(stock)
            case _:
                assert_never(resolution)

    async def _free_after_grace(self, stock: GPUUnit) -> Result:
        """Free the stock after the grace, which begins when this leader first saw the claim.

        Before that, read the claimant live.
        """
        left = self._grace_left(stock)
        if left > 0:
            return Result(requeue_after_seconds=left)
        if not provenance.is_doubtful(stock, await self._live_claimant(stock)):
            return Result(requeue_after_seconds=RECORD_SECONDS)
        await self._free(stock)
        return DONE

    def _grace_left(self, stock: GPUUnit) -> float:
        """Return the seconds left; an attempt that took over the claim begins a new grace."""
        now = loop_time()
        claim = (stock.metadata.uid, provenance.attempt_of(stock))
        known, since = self._doubts.get(stock.metadata.key, (None, now))
        if known != claim:
            since = now
            self._doubts[stock.metadata.key] = (claim, since)
        return since + GRACE_SECONDS - now

    def _claimant(self, stock: GPUUnit) -> GPUUnit | None:
        key = provenance.claimant_of(stock)
        return self._caches.units.store.get(key) if key else None

    async def _live_claimant(self, stock: GPUUnit) -> GPUUnit | None:
        key = provenance.claimant_of(stock)
        try:
            return await self._client.get(GPU_UNITS, key) if key else None
        except NotFoundError:
            return None

    async def _pool(self, stock: GPUUnit) -> StockPool | None:
        """Return the pool that created the stock, or None after a live read shows it is gone."""
        name = provenance.pool_of(stock)
        if not name:
            return None
        key = Key(stock.metadata.namespace, name)
        cached = self._caches.pools.store.get(key)
        if cached is not None and provenance.is_of_pool(stock, cached):
            return cached
        try:
            live = await self._client.get(STOCK_POOLS, key)
        except NotFoundError:
            return None
        return live if provenance.is_of_pool(stock, live) else None

    async def _free(self, stock: GPUUnit) -> None:
        freed = await self._client.patch(
            GPU_UNITS,
            stock.metadata.key,
            provenance.no_claim_marks(),
            resource_version=stock.metadata.resourceVersion,
        )
        self._doubts.pop(stock.metadata.key, None)
        self._caches.stock.write_through(freed)
        claimant = provenance.claimant_of(stock) or "nobody"
        log.info("claim freed after its grace", claimant=str(claimant))
        grace = f"{GRACE_SECONDS:.0f} s"
        text = f"no unit came of the claim for {claimant} in {grace}: free again"
        record_note(self._recorder, GPU_UNITS, stock, Note("ClaimFreed", text, is_warning=True))

    async def _delete(self, stock: GPUUnit, why: str) -> None:
        self._doubts.pop(stock.metadata.key, None)
        await delete_stock(self._client, stock)
        log.info("stock removed", why=why)


async def delete_stock(client: Client, stock: GPUUnit) -> None:
    """Delete the stock, guarded by uid and version, so that a claim that wins keeps its unit."""
    try:
        await client.delete(
            GPU_UNITS,
            stock.metadata.key,
            uid=stock.metadata.uid,
            resource_version=stock.metadata.resourceVersion,
        )
    except NotFoundError:
        return
