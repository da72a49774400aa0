"""Which changes wake which reconcilers, and the set of them that a leader runs.

A standby keeps its caches warm and queues nothing; a new leader takes every object as backlog.
An event that changes nothing that `observe` reads wakes nobody.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

import structlog

from gpuruntime.audit.auditor import Auditor
from gpuruntime.controller.controller import Controller
from gpuruntime.inventory import stores
from gpuruntime.inventory.stock import StockClaims
from gpuruntime.inventory.tombstones import Tombstones
from gpuruntime.kube.events import EventRecorder
from gpuruntime.models import labels, provenance
from gpuruntime.models.metadata import Key, KubernetesObject
from gpuruntime.models.network import SERVICES, Service
from gpuruntime.models.pods import Pod
from gpuruntime.models.pools import StockPool
from gpuruntime.models.reasons import UnitReason
from gpuruntime.models.units import GPUUnit
from gpuruntime.models.workloads import DEPLOYMENTS, Deployment
from gpuruntime.reconcilers.child_keeper import ChildKeeper
from gpuruntime.reconcilers.deletions import Sweeper, Undertaker
from gpuruntime.reconcilers.facts import (
    WAITING,
    asked,
    counted,
    has_begun,
    is_news,
    readiness,
    trouble,
    unit_name,
)
from gpuruntime.reconcilers.informers import Informers, Surroundings
from gpuruntime.reconcilers.notes import COMPONENT
from gpuruntime.reconcilers.pool import PoolReconciler
from gpuruntime.reconcilers.reclaim import Reclaimer
from gpuruntime.reconcilers.running import Runner
from gpuruntime.reconcilers.stock import StockReconciler
from gpuruntime.reconcilers.unit import UnitReconciler
from gpuruntime.workqueue.queue import WorkQueue

log = structlog.get_logger()

# Changes of a pool's units within this time are counted together.
POOL_SECONDS: Final = 0.5
WORKERS: Final = 16


class Reconcilers:
    """`run_caches` on every replica, `run` on the leader."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self.informers = Informers(around)
        self._caches = self.informers.caches()
        self.is_leading = False
        self._unit_queue: WorkQueue[Key] = WorkQueue("unit", meter=around.meter)
        self._stock_queue: WorkQueue[Key] = WorkQueue("stock", meter=around.meter)
        self._pool_queue: WorkQueue[Key] = WorkQueue("pool", meter=around.meter)
        self._grave_queue: WorkQueue[Key] = WorkQueue("deletion", meter=around.meter)
        self._tombstones = Tombstones(
            around.client,
            namespace=around.options.system_namespace,
            retention_seconds=around.retention_seconds,
            now=around.now,
        )
        self._recorder = EventRecorder(
            around.client,
            component=COMPONENT,
            now=around.now,
            rng=around.rng,
            meter=around.meter,
        )
        self._undertaker = Undertaker(self._tombstones, self._grave_queue)
        self._sweeper = Sweeper(around.client, self.informers.tombstones, around.now)
        self._auditor = Auditor(
            self._caches.snapshot, is_current=self._is_current, meter=around.meter
        )
        self._controllers = self._make_controllers()
        self._listen()

    @property
    def unsynced(self) -> list[str]:
        """Which mirrors have not been read once."""
        waiting = (each for each in self.informers.all() if not each.synced.is_set())
        return sorted({str(each.resource) for each in waiting})

    async def run_caches(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for informer in self.informers.all():
                tasks.create_task(informer.run(), name=f"inform {informer.resource}")

    async def run(self) -> None:
        """Begins with a consistent read: what an earlier leader wrote is known before we act."""
        for informer in self.informers.all():
            await informer.synced.wait()
        for informer in (self.informers.units, self.informers.stock, self.informers.pools):
            await informer.catch_up()
        self._say_what_is_missing()
        self.is_leading = True
        self._take_backlog()
        async with asyncio.TaskGroup() as tasks:
            for controller in self._controllers:
                tasks.create_task(controller.run(), name=f"controller {controller}")
            tasks.create_task(self._sweeper.run(), name="sweeper")
            tasks.create_task(self._auditor.run(), name="audit")
            tasks.create_task(self._recorder.run(), name="events")

    def _is_current(self) -> bool:
        return all(informer.error is None for informer in self.informers.all())

    def _say_what_is_missing(self) -> None:
        missing = self.informers.missing_priorities()
        if missing:
            log.warning(
                "no such PriorityClass: Pods do without, so on a full cluster stock may keep "
                "a place from a unit that has claimed it",
                names=missing,
                remedy="apply the PriorityClasses of the manifests; Pods made later name them",
            )

    async def drain(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for controller in self._controllers:
                tasks.create_task(controller.drain(), name="drain")

    def _make_controllers(self) -> tuple[Controller[Key], ...]:
        around, caches = self._around, self._caches
        runner = self._runner()
        claims = StockClaims(
            around.client,
            stock=caches.stock,
            units=caches.units,
            namespace=around.options.stock_namespace,
            now=around.now,
            rng=around.rng,
            meter=around.meter,
        )
        unit = UnitReconciler(
            client=around.client,
            caches=caches,
            runner=runner,
            reclaimer=Reclaimer(
                client=around.client,
                claims=claims,
                units=caches.units,
                recorder=self._recorder,
            ),
            tombstones=self._tombstones,
            recorder=self._recorder,
            term=around.term,
        )
        stock = StockReconciler(
            client=around.client, caches=caches, runner=runner, recorder=self._recorder
        )
        pool = PoolReconciler(
            client=around.client,
            caches=caches,
            tombstones=self._tombstones,
            defaults=around.options.pod_defaults,
            retention_seconds=around.retention_seconds,
            recorder=self._recorder,
            term=around.term,
            now=around.now,
        )
        table = (
            ("unit", self._unit_queue, unit.reconcile),
            ("stock", self._stock_queue, stock.reconcile),
            ("pool", self._pool_queue, pool.reconcile),
            ("deletion", self._grave_queue, self._undertaker.reconcile),
        )
        return tuple(
            Controller(name, queue, reconcile, workers=WORKERS, meter=around.meter)
            for name, queue, reconcile in table
        )

    def _runner(self) -> Runner:
        around = self._around
        return Runner(
            client=around.client,
            caches=self._caches,
            options=around.options,
            deployments={
                namespace: ChildKeeper(
                    client=around.client,
                    cache=cache,
                    resource=DEPLOYMENTS,
                    reason=UnitReason.DEPLOYMENT_SYNC_FAILED,
                )
                for namespace, cache in self.informers.deployments.items()
            },
            services=ChildKeeper(
                client=around.client,
                cache=self.informers.services,
                resource=SERVICES,
                reason=UnitReason.SERVICE_SYNC_FAILED,
            ),
            recorder=self._recorder,
            now=around.now,
        )

    def _listen(self) -> None:
        informers = self.informers
        informers.units.add_handler(self._on_unit)
        informers.units.add_handler(self._undertake)
        informers.stock.add_handler(self._on_stock)
        informers.pools.add_handler(self._on_pool)
        informers.services.add_handler(self._on_child)
        for namespace in informers.deployments:
            informers.deployments[namespace].add_handler(self._on_deployment)
            informers.pods[namespace].add_handler(self._on_pod)

    def _take_backlog(self) -> None:
        for queue, informer in (
            (self._unit_queue, self.informers.units),
            (self._stock_queue, self.informers.stock),
            (self._pool_queue, self.informers.pools),
        ):
            for held in informer.store.values():
                queue.add(held.metadata.key, is_backlog=True)

    def _on_unit(self, key: Key, old: GPUUnit | None, new: GPUUnit | None) -> None:
        if not self.is_leading:
            return
        if asked(old) != asked(new) and new is not None:
            self._unit_queue.add(key)
        if has_begun(old) != has_begun(new) or new is None:
            self._wake_source(new or old)
        if old is None or new is None:
            self._wake_rivals(new or old, key)

    def _on_stock(self, key: Key, old: GPUUnit | None, new: GPUUnit | None) -> None:
        if not self.is_leading:
            return
        if new is not None and asked(old) != asked(new):
            self._stock_queue.add(key)
        if counted(old) != counted(new):
            self._wake_pool(new or old)
        if new is not None and provenance.is_free(new) and not (old and provenance.is_free(old)):
            self._wake_waiting(new)

    def _on_pool(self, key: Key, old: StockPool | None, new: StockPool | None) -> None:
        if not self.is_leading:
            return
        if new is not None and asked(old) != asked(new):
            self._pool_queue.add(key)
        if new is None or (old is not None and old.status.seeded != new.status.seeded):
            for unit in self.informers.stock.store.by_index(stores.POOL, key.name):
                if new is None or provenance.is_claimed(unit):
                    self._stock_queue.add(unit.metadata.key)

    def _undertake(self, key: Key, old: GPUUnit | None, new: GPUUnit | None) -> None:
        if self.is_leading:
            self._undertaker.notice(key, old, new)

    def _on_deployment(self, key: Key, old: Deployment | None, new: Deployment | None) -> None:
        if is_news(old, new) or readiness(old) != readiness(new):
            self._wake_owner(key.namespace, new or old)

    def _on_child(self, key: Key, old: Service | None, new: Service | None) -> None:
        if is_news(old, new):
            self._wake_owner(key.namespace, new or old)

    def _on_pod(self, key: Key, old: Pod | None, new: Pod | None) -> None:
        """On the way to Ready the Deployment tells; a Pod tells of trouble, and of its end."""
        if trouble(old) != trouble(new) or new is None:
            self._wake_owner(key.namespace, new or old)

    def _wake_owner(self, namespace: str, child: Deployment | Service | Pod | None) -> None:
        """Children outlive their owner for a while: one that is gone needs no waking."""
        key = Key(namespace, unit_name(child))
        is_stock = namespace == self._around.options.stock_namespace
        informer = self.informers.stock if is_stock else self.informers.units
        if self.is_leading and key in informer.store:
            (self._stock_queue if is_stock else self._unit_queue).add(key)

    def _wake_source(self, unit: GPUUnit | None) -> None:
        source = provenance.source_of(unit) if unit else None
        if source is not None:
            self._stock_queue.add(source)

    def _wake_rivals(self, unit: GPUUnit | None, key: Key) -> None:
        operation = provenance.operation_of(unit) if unit else ""
        self._add_all(
            self._unit_queue,
            self.informers.units.store.by_index(stores.OPERATION, operation) if operation else (),
            key,
        )

    def _wake_pool(self, stock: GPUUnit | None) -> None:
        name = stock.metadata.labels.get(labels.POOL, "") if stock else ""
        if stock is not None and name:
            self._pool_queue.add_after(Key(stock.metadata.namespace, name), POOL_SECONDS)

    def _wake_waiting(self, stock: GPUUnit) -> None:
        """Free stock is what units wait for whose claim was lost."""
        waiting = self.informers.units.store.by_index(WAITING, stock.spec.specName)
        self._add_all(self._unit_queue, waiting, None)

    @staticmethod
    def _add_all(
        queue: WorkQueue[Key], values: Iterable[KubernetesObject], besides: Key | None
    ) -> None:
        for value in values:
            if value.metadata.key != besides:
                queue.add(value.metadata.key)
