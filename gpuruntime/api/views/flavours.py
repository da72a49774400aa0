"""Flavours as callers see them: the pools in force, with what can be claimed now."""

from collections.abc import Iterator
from itertools import islice

from gpuruntime.api.views.cluster_summary import ClusterSummary
from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.pools import StockPool
from gpuruntime.models.views.flavours import FlavourView
from gpuruntime.operations.lookup.caches import POOL, SPEC, Caches
from gpuruntime.operations.lookup.counts import StockState
from gpuruntime.operations.lookup.ordering import OrderedCache, Place
from gpuruntime.operations.lookup.repository import pool_in_force


class Flavours:
    """Flavours reads caches alone; create it before their informers run."""

    def __init__(self, caches: Caches, fleet: ClusterSummary) -> None:
        self._pools = caches.pools.store
        self._stock = caches.stock.store
        self._fleet = fleet
        self._ordered = OrderedCache(caches.pools, _place_of)

    def page(self, *, limit: int, after: str = "") -> tuple[list[FlavourView], str]:
        """Return a page sorted by specName, and its last specName if more follow."""
        pools = list(islice(self._in_force_after(after), limit + 1))
        views = [self._view(pool) for pool in pools[:limit]]
        return views, views[-1].specName if len(pools) > limit else ""

    def _in_force_after(self, spec_name: str) -> Iterator[StockPool]:
        """Yield the pool that decides each flavour; a flavour of invalid pools has none."""
        for pool in self._ordered.after((spec_name,) if spec_name else ()):
            if pool.spec.specName != spec_name:
                spec_name = pool.spec.specName
                if decides := pool_in_force(self._pools.by_index(SPEC, spec_name)):
                    yield decides

    def _view(self, pool: StockPool) -> FlavourView:
        """Return the flavour; stock has the whole envelope, and a pool may leave out defaults."""
        stock = self._stock.by_index(POOL, pool.metadata.name)
        unit = next((each for each in stock if provenance.is_of_pool(each, pool)), None)
        spec = unit.spec if unit else pool.spec
        available = self._fleet.stock.of(pool.spec.specName).get(StockState.AVAILABLE, 0)
        return FlavourView(
            specName=spec.specName,
            cpu=spec.cpu,
            memory=spec.memory,
            gpu=spec.gpu,
            gpuProduct=spec.gpuProduct,
            available=available,
            units=sum(self._fleet.active.of(pool.spec.specName).values()),
            full=not available,
        )


def _place_of(pool: StockPool) -> Place:
    return (pool.spec.specName, pool.metadata.name)
