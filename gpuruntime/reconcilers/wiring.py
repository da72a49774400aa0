"""Composition of the reconcilers: caches on every replica, controllers on the leader."""

import asyncio
from enum import StrEnum
from typing import Final

import structlog

from gpuruntime.audit.auditor import Auditor
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
from gpuruntime.reconcilers.children.keeper import ChildKeeper, LiveT
from gpuruntime.reconcilers.events import COMPONENT
from gpuruntime.reconcilers.functions.worker_secrets import WorkerSecrets
from gpuruntime.reconcilers.informers import Informers, ReconcilerContext
from gpuruntime.reconcilers.object_metrics import ObjectMetrics
from gpuruntime.reconcilers.stock.pool import PoolReconciler
from gpuruntime.reconcilers.stock.reconciler import StockReconciler
from gpuruntime.reconcilers.storage.file_server import FileServers
from gpuruntime.reconcilers.storage.holders import StorageHolders
from gpuruntime.reconcilers.storage.prepare import PrepareJobs
from gpuruntime.reconcilers.storage.reconciler import StorageReconciler
from gpuruntime.reconcilers.storage.triggers import StorageTriggers
from gpuruntime.reconcilers.storage.volume_claim import VolumeClaims
from gpuruntime.reconcilers.storage.writes import StorageWrites
from gpuruntime.reconcilers.tombstones import TombstoneSweeper, TombstoneWriter
from gpuruntime.reconcilers.triggers import Triggers
from gpuruntime.reconcilers.unit.reclaim_stock import StockReclaimer
from gpuruntime.reconcilers.unit.reconciler import UnitReconciler
from gpuruntime.reconcilers.unit.runner import Runner
from gpuruntime.reconcilers.unit.start_locks import StartLocks
from gpuruntime.workqueue.queue import WorkQueue

log = structlog.get_logger()

WORKERS: Final = 16
# A stop waits at most this long for queued Events.
SETTLE_SECONDS: Final = 2.0


class Reconcilers:
    """Reconcilers of one manager: `run_caches` runs on every replica, `run` on the leader."""

    def __init__(self, around: ReconcilerContext) -> None:
        self._around = around
        self.informers = Informers(around)
        self._caches = self.informers.caches()
        self.census = ObjectMetrics(self._caches)
        self._waker = Triggers(
            self.informers, stock_namespace=around.options.stock_namespace, meter=around.meter
        )
        self._storage_waker = StorageTriggers(
            self.informers,
            namespace=around.options.instance_namespace,
            units=self._waker.units,
            meter=around.meter,
        )
        self._grave_queue: WorkQueue[Key] = WorkQueue("deletion", meter=around.meter)
        self._operation_context = self._make_operation_context()
        self._tombstones = tombstones_of(self._operation_context)
        self.recorder = EventRecorder(
            around.client,
            component=COMPONENT,
            now=around.now,
            rng=around.rng,
            meter=around.meter,
        )
        self._undertaker = TombstoneWriter(
            self._tombstones, self._grave_queue, self.informers.tombstones
        )
        self.informers.units.add_handler(self._undertake)
        self._sweeper = TombstoneSweeper(around.client, self.informers.tombstones, around.now)
        self._auditor = Auditor(
            self._caches.snapshot, is_current=self._is_current, meter=around.meter
        )
        self._controllers = self._make_controllers()

    @property
    def is_leading(self) -> bool:
        return self._waker.is_leading

    @property
    def queues(self) -> tuple[WorkQueue[Key], ...]:
        waker = self._waker
        storages = self._storage_waker.storages
        return (waker.units, waker.stock, waker.pools, storages, self._grave_queue)

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
        self._say_what_is_missing()
        self._waker.begin()
        self._undertaker.begin()
        self._storage_waker.begin()
        async with asyncio.TaskGroup() as tasks:
            for controller in self._controllers:
                tasks.create_task(controller.run(), name=f"controller {controller.name}")
            tasks.create_task(self._sweeper.run(), name="sweeper")
            tasks.create_task(self._auditor.run(), name="audit")
            tasks.create_task(self.recorder.run(), name="events")

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
        options = self._around.options
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
        around, caches = self._around, self._caches
        return OperationContext(
            client=around.client,
            caches=ReadCaches(
                stock=caches.stock,
                units=caches.units,
                pools=caches.pools,
                storages=caches.storages,
            ),
            options=Options(
                namespaces=Namespaces(
                    stock=around.options.stock_namespace,
                    instance=around.options.instance_namespace,
                    system=around.options.system_namespace,
                ),
                retention_seconds=around.retention_seconds,
            ),
            now=around.now,
            rng=around.rng,
            meter=around.meter,
        )

    def _make_controllers(self) -> tuple[Controller[Key], ...]:
        around, caches = self._around, self._caches
        runner = self._runner()
        writes = StorageWrites(client=around.client, storages=caches.storages)
        starts = StartLocks()
        holds = StorageHolders(
            around.client, caches, writes=writes, starts=starts, term=around.term
        )
        unit = UnitReconciler(
            client=around.client,
            caches=caches,
            runner=runner,
            reclaimer=StockReclaimer(
                client=around.client,
                claims=stock_claims_of(self._operation_context),
                units=caches.units,
                recorder=self.recorder,
            ),
            tombstones=self._tombstones,
            holds=holds,
            recorder=self.recorder,
            term=around.term,
            starts=starts,
        )
        storage = self._storage_reconciler(holds, writes)
        stock = StockReconciler(
            client=around.client, caches=caches, runner=runner, recorder=self.recorder
        )
        pool = PoolReconciler(
            client=around.client,
            caches=caches,
            tombstones=self._tombstones,
            defaults=around.options.pod_defaults,
            retention_seconds=around.retention_seconds,
            recorder=self.recorder,
            term=around.term,
            now=around.now,
        )
        table = (
            ("unit", self._waker.units, unit.reconcile),
            ("stock", self._waker.stock, stock.reconcile),
            ("pool", self._waker.pools, pool.reconcile),
            ("storage", self._storage_waker.storages, storage.reconcile),
            ("deletion", self._grave_queue, self._undertaker.reconcile),
        )
        return tuple(
            Controller(name, queue, reconcile, workers=WORKERS, meter=around.meter)
            for name, queue, reconcile in table
        )

    def _storage_reconciler(
        self, holds: StorageHolders, writes: StorageWrites
    ) -> StorageReconciler:
        around, caches, policies = self._around, self._caches, self.informers.policies
        return StorageReconciler(
            caches=caches,
            options=around.options,
            writes=writes,
            holds=holds,
            claims=VolumeClaims(
                client=around.client, claims=caches.claims, classes=caches.classes
            ),
            prepares=PrepareJobs(
                client=around.client,
                caches=caches,
                options=around.options,
                holds=holds,
                policies=self._keeper(
                    policies, NETWORK_POLICIES, StorageReason.NETWORK_POLICY_SYNC_FAILED
                ),
                now=around.now,
            ),
            accessors=self._accessors(holds),
            tombstones=self._tombstones,
            recorder=self.recorder,
            now=around.now,
        )

    def _accessors(self, holds: StorageHolders) -> FileServers:
        options, informers = self._around.options, self.informers
        failed = StorageReason.ACCESSOR_FAILED
        deployments = informers.deployments[options.instance_namespace]
        return FileServers(
            caches=self._caches,
            options=options,
            holds=holds,
            deployments=self._keeper(deployments, DEPLOYMENTS, failed),
            services=self._keeper(informers.services, SERVICES, failed),
            policies=self._keeper(informers.policies, NETWORK_POLICIES, failed),
        )

    def _keeper(
        self, cache: Informer[LiveT], resource: Resource[LiveT], reason: StrEnum
    ) -> ChildKeeper[LiveT]:
        return ChildKeeper(
            client=self._around.client, cache=cache, resource=resource, reason=reason
        )

    def _runner(self) -> Runner:
        around, informers = self._around, self.informers
        return Runner(
            client=around.client,
            caches=self._caches,
            options=around.options,
            deployments={
                namespace: self._keeper(cache, DEPLOYMENTS, UnitReason.DEPLOYMENT_SYNC_FAILED)
                for namespace, cache in informers.deployments.items()
            },
            services=self._keeper(informers.services, SERVICES, UnitReason.SERVICE_SYNC_FAILED),
            policies=self._keeper(
                informers.policies, NETWORK_POLICIES, UnitReason.NETWORK_POLICY_SYNC_FAILED
            ),
            secrets=WorkerSecrets(
                around.client, around.options.sidecar, mint=around.mint, now=around.now
            ),
            recorder=self.recorder,
            now=around.now,
            meter=around.meter,
        )

    def _undertake(self, key: Key, old: GPUUnit | None, new: GPUUnit | None) -> None:
        look = self._undertaker.notice if self.is_leading else self._undertaker.remember
        look(key, old, new)
