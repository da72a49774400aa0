"""Composition of the reconcilers: caches on every replica, controllers on the leader."""

import asyncio
from datetime import timedelta
from enum import StrEnum
from typing import Final

import structlog

from gpuruntime.audit.auditor import Auditor
from gpuruntime.concurrency.leadership import Leadership
from gpuruntime.controller.controller import Controller
from gpuruntime.informer.informer import Informer
from gpuruntime.kube.events import EventRecorder
from gpuruntime.models.kinds.reasons import StorageReason, UnitReason
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.network import NETWORK_POLICIES, SERVICES
from gpuruntime.models.kubernetes.resources import Resource
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS
from gpuruntime.operations.context import OperationContext
from gpuruntime.operations.lookup.caches import Caches as ReadCaches
from gpuruntime.operations.operations import stock_claims_of, tombstones_of
from gpuruntime.operations.options import Namespaces, Options
from gpuruntime.reconcilers.activity.reader import ActivityReader
from gpuruntime.reconcilers.children.keeper import ChildKeeper, LiveT
from gpuruntime.reconcilers.events import COMPONENT
from gpuruntime.reconcilers.functions.worker_secrets import WorkerSecrets
from gpuruntime.reconcilers.informers import Informers, ReconcilerContext
from gpuruntime.reconcilers.object_metrics import ObjectMetrics
from gpuruntime.reconcilers.stock.act import StockActor
from gpuruntime.reconcilers.stock.observation import StockObserver
from gpuruntime.reconcilers.stock.pool import PoolReconciler
from gpuruntime.reconcilers.stock.pool_act import PoolActor
from gpuruntime.reconcilers.stock.pool_observation import PoolObserver
from gpuruntime.reconcilers.stock.pool_pass_plan import PoolOptions
from gpuruntime.reconcilers.stock.reconciler import StockReconciler
from gpuruntime.reconcilers.stock.seeding import Seeder
from gpuruntime.reconcilers.storage.act import StorageActor
from gpuruntime.reconcilers.storage.holders import StorageHolders
from gpuruntime.reconcilers.storage.observation import StorageObserver
from gpuruntime.reconcilers.storage.reconciler import StorageReconciler
from gpuruntime.reconcilers.storage.report import StorageReporter
from gpuruntime.reconcilers.storage.triggers import StorageTriggers
from gpuruntime.reconcilers.storage.writes import StorageWrites
from gpuruntime.reconcilers.tombstones import TombstoneSweeper, TombstoneWriter
from gpuruntime.reconcilers.triggers import Triggers
from gpuruntime.reconcilers.unit.act import ChildKeepers, UnitActor
from gpuruntime.reconcilers.unit.observation import UnitObserver
from gpuruntime.reconcilers.unit.reclaim_stock import StockReclaimer
from gpuruntime.reconcilers.unit.reconciler import UnitReconciler
from gpuruntime.reconcilers.unit.report import UnitReporter
from gpuruntime.reconcilers.unit.start_locks import StartLocks
from gpuruntime.workqueue.queue import WorkQueue

log = structlog.get_logger()

# 48 workers start a burst of 150 units no faster: each request then takes three times as long.
WORKERS: Final = 16
# A stop waits at most this long for queued Events.
SETTLE_SECONDS: Final = 2.0


class Reconcilers:
    """Reconcilers of one manager: `run_caches` runs on every replica, `run` on the leader."""

    def __init__(self, context: ReconcilerContext) -> None:
        self._context = context
        self.informers = Informers(context)
        self._caches = self.informers.caches()
        self.object_metrics = ObjectMetrics(self._caches)
        self.leadership = Leadership()
        self._triggers = Triggers(
            self.informers,
            self.leadership,
            stock_namespace=context.options.stock_namespace,
            meter=context.meter,
        )
        self._storage_triggers = StorageTriggers(
            self.informers,
            self.leadership,
            namespace=context.options.instance_namespace,
            meter=context.meter,
        )
        self._deletion_queue: WorkQueue[Key] = WorkQueue("deletion", meter=context.meter)
        self._operation_context = self._make_operation_context()
        self._tombstones = tombstones_of(self._operation_context)
        self.recorder = EventRecorder(
            context.client,
            component=COMPONENT,
            now=context.now,
            rng=context.rng,
            meter=context.meter,
        )
        self._tombstone_writer = TombstoneWriter(
            self._tombstones, self._deletion_queue, self.informers.tombstones
        )
        self.leadership.on_begin(self._tombstone_writer.begin)
        self.informers.units.add_handler(self._on_unit)
        self._sweeper = TombstoneSweeper(context.client, self.informers.tombstones, context.now)
        self._auditor = Auditor(
            self._caches.snapshot, is_current=self._is_current, meter=context.meter
        )
        self.activity = self._activity_reader()
        self._controllers = self._make_controllers()

    @property
    def queues(self) -> tuple[WorkQueue[Key], ...]:
        triggers = self._triggers
        storages = self._storage_triggers.storages
        return (triggers.units, triggers.stock, triggers.pools, storages, self._deletion_queue)

    @property
    def unsynced(self) -> list[str]:
        """Return the kinds of informers that have not finished their first list."""
        waiting = (each for each in self.informers.all() if not each.synced.is_set())
        return sorted({str(each.resource) for each in waiting})

    async def run_caches(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for informer in self.informers.all():
                tasks.create_task(informer.run(), name=f"inform {informer.resource}")

    async def run(self) -> None:
        """Read consistently what earlier leaders wrote, then start to reconcile."""
        for informer in self.informers.all():
            await informer.synced.wait()
        for informer in self.informers.ours():
            await informer.catch_up()
        self._warn_of_missing_objects()
        self.leadership.begin()
        async with asyncio.TaskGroup() as tasks:
            for controller in self._controllers:
                tasks.create_task(controller.run(), name=f"controller {controller.name}")
            tasks.create_task(self._sweeper.run(), name="sweeper")
            tasks.create_task(self._auditor.run(), name="audit")
            tasks.create_task(self.recorder.run(), name="events")
            if self.activity is not None:
                tasks.create_task(self.activity.run(), name="activity")

    def _is_current(self) -> bool:
        return all(informer.error is None for informer in self.informers.all())

    def _warn_of_missing_objects(self) -> None:
        missing = self.informers.missing_priorities()
        if missing:
            log.warning(
                "no such PriorityClass: Pods do without, so on a full cluster stock may keep "
                "a place from a unit that has claimed it",
                names=missing,
                remedy="apply the PriorityClasses of the manifests; Pods made later name them",
            )
        options = self._context.options
        network, broker = options.network, options.sidecar.broker_url
        if broker and network.nats is None and not network.allows_all:
            log.warning(
                "network.nats is empty: workers reach a broker on the Internet, and no other",
                blocked=network.blocked_cidrs,
                remedy="say in network.nats by which labels or address the broker is found",
            )

    async def drain(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for controller in self._controllers:
                tasks.create_task(controller.drain(), name="drain")
        await self.recorder.settle(SETTLE_SECONDS)

    def _make_operation_context(self) -> OperationContext:
        """Return the context with which the manager claims stock and writes tombstones."""
        context, caches = self._context, self._caches
        return OperationContext(
            client=context.client,
            caches=ReadCaches(
                stock=caches.stock,
                units=caches.units,
                pools=caches.pools,
                storages=caches.storages,
            ),
            options=Options(
                namespaces=Namespaces(
                    stock=context.options.stock_namespace,
                    instance=context.options.instance_namespace,
                    system=context.options.system_namespace,
                ),
                retention_seconds=context.retention_seconds,
            ),
            now=context.now,
            rng=context.rng,
            meter=context.meter,
        )

    def _activity_reader(self) -> ActivityReader | None:
        context, units = self._context, self.informers.units.store
        if context.activity is None:
            return None
        return ActivityReader(
            client=context.client,
            options=context.activity,
            living=lambda: {unit.metadata.uid for unit in units.values()},
            on_ready_change=self._triggers.add_units,
            meter=context.meter,
        )

    def _make_controllers(self) -> tuple[Controller[Key], ...]:
        context, caches = self._context, self._caches
        writes = StorageWrites(client=context.client, storages=caches.storages)
        starts = StartLocks()
        holds = StorageHolders(
            context.client, caches, writes=writes, starts=starts, term=context.term
        )
        unit = self._unit_reconciler(holds, starts)
        storage = self._storage_reconciler(holds, writes)
        stock = StockReconciler(
            observer=StockObserver(context.client, caches),
            actor=StockActor(
                client=context.client, stock=caches.stock, units=unit, recorder=self.recorder
            ),
        )
        pool = self._pool_reconciler()
        table = (
            ("unit", self._triggers.units, unit.reconcile),
            ("stock", self._triggers.stock, stock.reconcile),
            ("pool", self._triggers.pools, pool.reconcile),
            ("storage", self._storage_triggers.storages, storage.reconcile),
            ("deletion", self._deletion_queue, self._tombstone_writer.reconcile),
        )
        return tuple(
            Controller(name, queue, reconcile, workers=WORKERS, meter=context.meter)
            for name, queue, reconcile in table
        )

    def _pool_reconciler(self) -> PoolReconciler:
        context, caches = self._context, self._caches
        defaults = context.options.pod_defaults
        seeder = Seeder(context.client, caches.stock, defaults)
        return PoolReconciler(
            observer=PoolObserver(caches, seeder=seeder, term=context.term),
            actor=PoolActor(
                client=context.client,
                pools=caches.pools,
                stock=caches.stock,
                seeder=seeder,
                tombstones=self._tombstones,
            ),
            options=PoolOptions(
                defaults=defaults, retention=timedelta(seconds=context.retention_seconds)
            ),
            recorder=self.recorder,
            now=context.now,
        )

    def _storage_reconciler(
        self, holds: StorageHolders, writes: StorageWrites
    ) -> StorageReconciler:
        context, caches, informers = self._context, self._caches, self.informers
        refused, failed = StorageReason.NETWORK_POLICY_SYNC_FAILED, StorageReason.ACCESSOR_FAILED
        deployments = informers.deployments[context.options.instance_namespace]
        return StorageReconciler(
            observer=StorageObserver(
                client=context.client,
                caches=caches,
                tombstones=self._tombstones,
                now=context.now,
            ),
            actor=StorageActor(
                client=context.client,
                caches=caches,
                writes=writes,
                holders=holds,
                tombstones=self._tombstones,
                deployments=self._keeper(deployments, DEPLOYMENTS, failed),
                services=self._keeper(informers.services, SERVICES, failed),
                prepare_policies=self._keeper(informers.policies, NETWORK_POLICIES, refused),
                accessor_policies=self._keeper(informers.policies, NETWORK_POLICIES, failed),
            ),
            reporter=StorageReporter(
                writes=writes, options=context.options, recorder=self.recorder, now=context.now
            ),
            holders=holds,
            options=context.options,
        )

    def _keeper(
        self, cache: Informer[LiveT], resource: Resource[LiveT], reason: StrEnum
    ) -> ChildKeeper[LiveT]:
        return ChildKeeper(
            client=self._context.client, cache=cache, resource=resource, reason=reason
        )

    def _unit_reconciler(self, holds: StorageHolders, starts: StartLocks) -> UnitReconciler:
        context, informers = self._context, self.informers
        keepers = ChildKeepers(
            deployments={
                namespace: self._keeper(cache, DEPLOYMENTS, UnitReason.DEPLOYMENT_SYNC_FAILED)
                for namespace, cache in informers.deployments.items()
            },
            services=self._keeper(informers.services, SERVICES, UnitReason.SERVICE_SYNC_FAILED),
            policies=self._keeper(
                informers.policies, NETWORK_POLICIES, UnitReason.NETWORK_POLICY_SYNC_FAILED
            ),
        )
        return UnitReconciler(
            observer=UnitObserver(
                client=context.client,
                caches=self._caches,
                options=context.options,
                keepers=keepers,
                tombstones=self._tombstones,
                holders=holds,
                starts=starts,
                term=context.term,
                gateway_ready=lambda: self.activity.is_gateway_ready if self.activity else None,
            ),
            actor=UnitActor(
                client=context.client,
                keepers=keepers,
                secrets=WorkerSecrets(
                    context.client, context.options.sidecar, mint=context.mint, now=context.now
                ),
                holders=holds,
                reclaimer=StockReclaimer(
                    client=context.client,
                    claims=stock_claims_of(self._operation_context),
                    units=self._caches.units,
                    recorder=self.recorder,
                ),
                recorder=self.recorder,
            ),
            reporter=UnitReporter(
                client=context.client,
                caches=self._caches,
                options=context.options,
                recorder=self.recorder,
                now=context.now,
                meter=context.meter,
            ),
            starts=starts,
            options=context.options,
        )

    def _on_unit(self, key: Key, old: GPUUnit | None, new: GPUUnit | None) -> None:
        writer = self._tombstone_writer
        handle = writer.notice if self.leadership.is_leading else writer.remember
        handle(key, old, new)
