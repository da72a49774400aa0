"""The only reads of a pool's reconcile: caches, and what this process remembers of the pool."""

from collections.abc import Callable
from math import inf
from typing import Final

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.pools import StockPool
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.operations.lookup.caches import POOL, SPEC
from gpuruntime.operations.lookup.repository import pool_in_force
from gpuruntime.reconcilers.caches import SOURCE_POOL, Caches
from gpuruntime.reconcilers.stock.pool_pass_plan import Observed
from gpuruntime.reconcilers.stock.pool_plan import take_stock
from gpuruntime.reconcilers.stock.seeding import Seeder
from gpuruntime.reconcilers.unit.start_plan import Term

# A pool's status is written at most this often, however fast its units change.
REPORT_SECONDS: Final = 1.0


class PoolObserver:
    def __init__(self, caches: Caches, *, seeder: Seeder, term: Callable[[], Term]) -> None:
        self._caches = caches
        self._seeder = seeder
        self._term = term
        # Loop time at which this process last wrote the status of each pool.
        self.reported: dict[Key, float] = {}

    def cached(self, key: Key) -> StockPool | None:
        return self._caches.pools.store.get(key)

    def observe(self, pool: StockPool) -> Observed:
        name, caches = pool.metadata.name, self._caches
        living = (
            unit
            for unit in caches.stock.store.by_index(POOL, name)
            if provenance.is_of_pool(unit, pool)
        )
        takers = caches.units.store.by_index(SOURCE_POOL, name)
        reported_at = self.reported.get(pool.metadata.key, -inf)
        return Observed(
            pool=pool,
            stock=take_stock(pool, living, takers),
            in_force=pool_in_force(caches.pools.store.by_index(SPEC, pool.spec.specName)),
            unsettled_seconds=self.unsettled_seconds(pool),
            unreported_seconds=max(0.0, reported_at + REPORT_SECONDS - loop_time()),
        )

    def unsettled_seconds(self, pool: StockPool) -> float:
        """Return for how many more seconds a create of the pool's stock may still land."""
        return max(self._seeder.unsettled_seconds(pool), self._term().unsettled_seconds)

    def forget(self, key: Key) -> None:
        self._seeder.forget(key)
        self.reported.pop(key, None)
