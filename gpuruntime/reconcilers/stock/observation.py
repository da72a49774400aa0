"""The only reads about a stock unit, beside those of the unit's own plan."""

from typing import TypeAlias

import attrs

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import NotFoundError
from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.claim_timing import GRACE_SECONDS
from gpuruntime.models.kinds.pools import STOCK_POOLS, StockPool
from gpuruntime.models.kinds.units import GPU_UNITS, GPUUnit
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.reconcilers.caches import Caches
from gpuruntime.reconcilers.stock.claim_resolution_plan import Consume, Doubt, Rest
from gpuruntime.reconcilers.stock.plan import Observed

# The uid of the stock, and the attempt that claimed it.
ClaimVersion: TypeAlias = tuple[str, str]


class StockObserver:
    """StockObserver reads caches. It measures the grace by this process's clock alone."""

    def __init__(self, client: Client, caches: Caches) -> None:
        self._client = client
        self._caches = caches
        # Doubtful claims by stock, with the loop time at which this process first saw each.
        self._doubts: dict[Key, tuple[ClaimVersion, float]] = {}

    def cached(self, key: Key) -> GPUUnit | None:
        """Return the stock unit, or None if it is gone or terminating."""
        stock = self._caches.stock.store.get(key)
        return None if stock is None or provenance.is_terminating(stock) else stock

    async def observe(self, stock: GPUUnit) -> Observed:
        key = provenance.claimant_of(stock)
        claimant = self._caches.units.store.get(key) if key else None
        pool = await self._pool(stock)
        seen = Observed(stock=stock, pool=pool, claimant=claimant)
        if seen.is_orphaned or isinstance(seen.resolution, Rest | Consume):
            self.forget(stock.metadata.key)
            return seen
        if not isinstance(seen.resolution, Doubt):
            return seen
        left = self._grace_seconds(stock)
        live = await self._live_claimant(stock) if left <= 0 else None
        return attrs.evolve(seen, grace_seconds=left, live_claimant=live)

    def forget(self, key: Key) -> None:
        self._doubts.pop(key, None)

    def _grace_seconds(self, stock: GPUUnit) -> float:
        """Return the seconds left; an attempt that took over the claim begins a new grace."""
        now = loop_time()
        claim = (stock.metadata.uid, provenance.attempt_of(stock))
        known, since = self._doubts.get(stock.metadata.key, (None, now))
        if known != claim:
            since = now
            self._doubts[stock.metadata.key] = (claim, since)
        return since + GRACE_SECONDS - now

    async def _live_claimant(self, stock: GPUUnit) -> GPUUnit | None:
        """Read the claimant live before its claim is freed: the cache may not hold it yet."""
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
