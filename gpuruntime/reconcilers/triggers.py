"""Triggers: which changes enqueue which keys.

A standby enqueues nothing. A new leader adds every object to the backlog, and new stock is added
there, too. Units whose children changed go first, as they are nearly finished. A change that no
reconciler reads enqueues nothing.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from gpuruntime.concurrency.leadership import Leadership
from gpuruntime.meter import Meter
from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.pools import StockPool
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.metadata import Key, KubernetesObject
from gpuruntime.operations.lookup import caches
from gpuruntime.reconcilers.informers import Informers
from gpuruntime.reconcilers.predicates import (
    asked,
    consumed,
    counted,
    has_begun,
    is_refused,
)
from gpuruntime.reconcilers.unit.reads import READS, Read
from gpuruntime.workqueue.queue import Lane, WorkQueue

# Changes of a pool's units within this time are counted together.
POOL_SECONDS: Final = 0.5


class Triggers:
    """Triggers owns the queues of units, stock and pools, and adds keys by informers' events."""

    def __init__(
        self,
        informers: Informers,
        leadership: Leadership,
        *,
        stock_namespace: str,
        meter: Meter,
    ) -> None:
        self.units: WorkQueue[Key] = WorkQueue("unit", meter=meter)
        self.stock: WorkQueue[Key] = WorkQueue("stock", meter=meter)
        self.pools: WorkQueue[Key] = WorkQueue("pool", meter=meter)
        self._leadership = leadership
        leadership.on_begin(self._add_backlog)
        self._informers = informers
        self._caches = informers.caches()
        self._stock_namespace = stock_namespace
        self._listen()

    def add_units(self) -> None:
        """Add all active units to the backlog."""
        for held in self._informers.units.store.values():
            self.units.add(held.metadata.key, lane=Lane.BACKLOG)

    def _add_backlog(self) -> None:
        self.add_units()
        for queue, informer in (
            (self.stock, self._informers.stock),
            (self.pools, self._informers.pools),
        ):
            for held in informer.store.values():
                queue.add(held.metadata.key, lane=Lane.BACKLOG)

    def _listen(self) -> None:
        informers = self._informers
        informers.units.add_handler(self._on_unit)
        informers.stock.add_handler(self._on_stock)
        informers.pools.add_handler(self._on_pool)
        for read in READS:
            found = getattr(self._caches, read.cache)
            for cache in found.values() if isinstance(found, Mapping) else (found,):
                cache.add_handler(partial(self._on_read, read))

    def _on_read(
        self, read: Read, _: Key, old: KubernetesObject | None, new: KubernetesObject | None
    ) -> None:
        """Enqueue the units whose observation reads the object, as it was and as it is."""
        if not self._leadership.is_leading or not read.is_read(old, new):
            return
        for value in (old, new):
            for unit in read.wakes(self._caches, value) if value is not None else ():
                is_stock = unit.namespace == self._stock_namespace
                (self.stock if is_stock else self.units).add(unit, lane=read.lane)

    def _on_unit(self, _: Key, old: GPUUnit | None, new: GPUUnit | None) -> None:
        if not self._leadership.is_leading:
            return
        # A new unit uses stock that is claimed for it already: its start is what counts.
        is_known = old is not None or has_begun(new)
        if is_known and consumed(old) != consumed(new):
            self._enqueue_source(old)
            self._enqueue_source(new)

    def _on_stock(self, key: Key, old: GPUUnit | None, new: GPUUnit | None) -> None:
        if not self._leadership.is_leading:
            return
        if new is not None and asked(old) != asked(new):
            # New stock waits in the backlog, so that no claim has to wait.
            self.stock.add(key, lane=Lane.BACKLOG if old is None else Lane.NEW)
        if counted(old) != counted(new):
            self._enqueue_pool(old)
            self._enqueue_pool(new)

    def _on_pool(self, key: Key, old: StockPool | None, new: StockPool | None) -> None:
        if not self._leadership.is_leading:
            return
        if new is None or asked(old) != asked(new):
            self.pools.add(key)
        if new is None and old is not None:
            # A pool that was refused for its other envelope may be filled now.
            alike = self._informers.pools.store.by_index(caches.SPEC, old.spec.specName)
            self._add_all(self.pools, [each for each in alike if is_refused(each)], key)
        if new is None or (old is not None and old.status.seeded != new.status.seeded):
            for unit in self._informers.stock.store.by_index(caches.POOL, key.name):
                if new is None or provenance.is_claimed(unit):
                    self.stock.add(unit.metadata.key)

    def _enqueue_source(self, unit: GPUUnit | None) -> None:
        source = provenance.source_of(unit) if unit else None
        if source is not None:
            self.stock.add(source)

    def _enqueue_pool(self, stock: GPUUnit | None) -> None:
        name = stock.metadata.labels.get(labels.POOL, "") if stock else ""
        if stock is not None and name:
            self.pools.add_after(Key(stock.metadata.namespace, name), POOL_SECONDS)

    @staticmethod
    def _add_all(
        queue: WorkQueue[Key], values: Iterable[KubernetesObject], besides: Key | None
    ) -> None:
        for value in values:
            if value.metadata.key != besides:
                queue.add(value.metadata.key)
