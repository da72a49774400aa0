"""Triggers: which changes enqueue which keys.

A standby enqueues nothing. A new leader adds every object to the backlog, and new stock is added
there, too. Units whose children changed go first, as they are nearly finished. A change that no
reconciler reads enqueues nothing.
"""

from collections.abc import Iterable
from typing import Final

from gpuruntime.concurrency.leadership import Leadership
from gpuruntime.meter import Meter
from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.pools import StockPool
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.metadata import Key, KubernetesObject
from gpuruntime.models.kubernetes.network import NetworkPolicy, Service
from gpuruntime.models.kubernetes.pods import Pod
from gpuruntime.models.kubernetes.workloads import Deployment
from gpuruntime.operations.lookup import caches
from gpuruntime.operations.lookup.caches import WORKER_OF
from gpuruntime.reconcilers.informers import Informers
from gpuruntime.reconcilers.predicates import (
    WAITING,
    asked,
    counted,
    declared,
    has_begun,
    is_news,
    is_refused,
    limited,
    readiness,
    staffed,
    trouble,
    unit_name,
)
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
        self._stock_namespace = stock_namespace
        self._listen()

    def _add_backlog(self) -> None:
        for queue, informer in (
            (self.units, self._informers.units),
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
        informers.services.add_handler(self._on_child)
        informers.policies.add_handler(self._on_child)
        for namespace in informers.deployments:
            informers.deployments[namespace].add_handler(self._on_deployment)
            informers.pods[namespace].add_handler(self._on_pod)

    def _on_unit(self, key: Key, old: GPUUnit | None, new: GPUUnit | None) -> None:
        if not self._leadership.is_leading:
            return
        if new is None or asked(old) != asked(new) or staffed(old) != staffed(new):
            # A deleted unit is enqueued as well, so that the reconciler forgets it.
            self.units.add(key)
        if new is not None and limited(old) != limited(new):
            workers = self._informers.units.store.by_index(WORKER_OF, new.metadata.uid)
            self._add_all(self.units, workers, key)
        if declared(old) != declared(new):
            self._enqueue_declarers(old, key)
            self._enqueue_declarers(new, key)
        if has_begun(old) != has_begun(new) or new is None:
            self._enqueue_source(new or old)
        if old is None or new is None:
            self._enqueue_rivals(new or old, key)

    def _on_stock(self, key: Key, old: GPUUnit | None, new: GPUUnit | None) -> None:
        if not self._leadership.is_leading:
            return
        if new is not None and asked(old) != asked(new):
            # New stock waits in the backlog, so that no claim has to wait.
            self.stock.add(key, lane=Lane.BACKLOG if old is None else Lane.NEW)
        if counted(old) != counted(new):
            self._enqueue_pool(new or old)
        if new is not None and provenance.is_free(new) and not (old and provenance.is_free(old)):
            self._enqueue_waiting(new)

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

    def _on_deployment(self, key: Key, old: Deployment | None, new: Deployment | None) -> None:
        if is_news(old, new) or readiness(old) != readiness(new):
            self._enqueue_owner(key.namespace, new or old)

    def _on_child(
        self, key: Key, old: Service | NetworkPolicy | None, new: Service | NetworkPolicy | None
    ) -> None:
        if is_news(old, new):
            self._enqueue_owner(key.namespace, new or old)

    def _on_pod(self, key: Key, old: Pod | None, new: Pod | None) -> None:
        """Enqueue the owner on trouble or at the Pod's end; the Deployment reports Ready."""
        if trouble(old) != trouble(new) or new is None:
            self._enqueue_owner(key.namespace, new or old)

    def _enqueue_owner(
        self, namespace: str, child: Deployment | Service | NetworkPolicy | Pod | None
    ) -> None:
        """Enqueue the owner, unless it is gone; its children outlive it for a while."""
        key = Key(namespace, unit_name(child))
        is_stock = namespace == self._stock_namespace
        informer = self._informers.stock if is_stock else self._informers.units
        if self._leadership.is_leading and key in informer.store:
            (self.stock if is_stock else self.units).add(key, lane=Lane.BEGUN)

    def _enqueue_source(self, unit: GPUUnit | None) -> None:
        source = provenance.source_of(unit) if unit else None
        if source is not None:
            self.stock.add(source)

    def _enqueue_rivals(self, unit: GPUUnit | None, key: Key) -> None:
        operation = provenance.operation_of(unit) if unit else ""
        self._add_all(
            self.units,
            self._informers.units.store.by_index(caches.OPERATION, operation) if operation else (),
            key,
        )

    def _enqueue_declarers(self, template: GPUUnit | None, key: Key) -> None:
        """Enqueue all units that declare the function, since its owner may have changed."""
        found = declared(template)
        if found is not None:
            _, function = found
            store = self._informers.units.store
            self._add_all(self.units, store.by_index(caches.FUNCTION, function), key)

    def _enqueue_pool(self, stock: GPUUnit | None) -> None:
        name = stock.metadata.labels.get(labels.POOL, "") if stock else ""
        if stock is not None and name:
            self.pools.add_after(Key(stock.metadata.namespace, name), POOL_SECONDS)

    def _enqueue_waiting(self, stock: GPUUnit) -> None:
        """Enqueue units that lost their claim and wait for such stock."""
        waiting = self._informers.units.store.by_index(WAITING, stock.spec.specName)
        self._add_all(self.units, waiting, None)

    @staticmethod
    def _add_all(
        queue: WorkQueue[Key], values: Iterable[KubernetesObject], besides: Key | None
    ) -> None:
        for value in values:
            if value.metadata.key != besides:
                queue.add(value.metadata.key)
