"""The reconcilers of a manager, put together: caches on every replica, work on the leader."""

import asyncio
from typing import Final

import structlog

from gpuruntime.audit.auditor import Auditor
from gpuruntime.controller.controller import Controller
from gpuruntime.inventory.stock import StockClaims
from gpuruntime.inventory.tombstones import Tombstones
from gpuruntime.kube.events import EventRecorder
from gpuruntime.models.metadata import Key
from gpuruntime.models.network import SERVICES
from gpuruntime.models.reasons import UnitReason
from gpuruntime.models.units import GPUUnit
from gpuruntime.models.workloads import DEPLOYMENTS
from gpuruntime.reconcilers.child_keeper import ChildKeeper
from gpuruntime.reconcilers.deletions import Sweeper, Undertaker
from gpuruntime.reconcilers.informers import Informers, Surroundings
from gpuruntime.reconcilers.notes import COMPONENT
from gpuruntime.reconcilers.pool import PoolReconciler
from gpuruntime.reconcilers.reclaim import Reclaimer
from gpuruntime.reconcilers.running import Runner
from gpuruntime.reconcilers.stock import StockReconciler
from gpuruntime.reconcilers.unit import UnitReconciler
from gpuruntime.reconcilers.waking import Waker
from gpuruntime.workqueue.queue import WorkQueue

log = structlog.get_logger()

WORKERS: Final = 16
# What was told last is worth so much of a stop.
SETTLE_SECONDS: Final = 2.0


class Reconcilers:
    """`run_caches` on every replica, `run` on the leader."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self.informers = Informers(around)
        self._caches = self.informers.caches()
        self._waker = Waker(
            self.informers, stock_namespace=around.options.stock_namespace, meter=around.meter
        )
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
        self.informers.units.add_handler(self._undertake)
        self._sweeper = Sweeper(around.client, self.informers.tombstones, around.now)
        self._auditor = Auditor(
            self._caches.snapshot, is_current=self._is_current, meter=around.meter
        )
        self._controllers = self._make_controllers()

    @property
    def is_leading(self) -> bool:
        return self._waker.is_leading

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
        self._waker.begin()
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
        await self._recorder.settle(SETTLE_SECONDS)

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
            ("unit", self._waker.units, unit.reconcile),
            ("stock", self._waker.stock, stock.reconcile),
            ("pool", self._waker.pools, pool.reconcile),
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

    def _undertake(self, key: Key, old: GPUUnit | None, new: GPUUnit | None) -> None:
        if self.is_leading:
            self._undertaker.notice(key, old, new)
