"""Informers of the manager, and the selection that each one mirrors."""

from collections.abc import Callable, Mapping
from datetime import datetime
from random import Random
from typing import Any, Final

import attrs

from gpuruntime.bus.user_jwts import Mint
from gpuruntime.informer.informer import Informer
from gpuruntime.informer.store import Index
from gpuruntime.kube.client import Client
from gpuruntime.kube.watch import EVERYTHING, Selection
from gpuruntime.meter import Meter
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.pools import STOCK_POOLS, StockPool
from gpuruntime.models.kinds.storages import GPU_STORAGES, GPUStorage
from gpuruntime.models.kinds.tombstones import TOMBSTONE_SELECTOR
from gpuruntime.models.kinds.units import GPU_UNITS, GPUUnit
from gpuruntime.models.kubernetes.cluster import (
    CONFIG_MAPS,
    PRIORITY_CLASSES,
    ConfigMap,
    PriorityClass,
)
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.network import NETWORK_POLICIES, SERVICES, NetworkPolicy, Service
from gpuruntime.models.kubernetes.pods import PODS, Pod
from gpuruntime.models.kubernetes.resources import ObjectT, Resource
from gpuruntime.models.kubernetes.volumes import (
    JOBS,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    Job,
    StorageClass,
    VolumeClaim,
)
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS, Deployment
from gpuruntime.operations.lookup import caches
from gpuruntime.reconcilers.activity.reader import ActivityOptions
from gpuruntime.reconcilers.caches import (
    HOLDER,
    SOURCE_POOL,
    STORAGE,
    UNIT,
    Caches,
    by_holder,
    by_source_pool,
    by_storage,
    by_unit,
)
from gpuruntime.reconcilers.options import UnitOptions
from gpuruntime.reconcilers.predicates import WAITING, by_wait
from gpuruntime.reconcilers.unit.start_plan import Term

OURS: Final = f"{labels.MANAGED_BY}={labels.MANAGER}"
POD_INDEXES: Final = {UNIT: by_unit, STORAGE: by_storage}


@attrs.frozen(kw_only=True, slots=True)
class ReconcilerContext:
    """Dependencies that the manager's role hands to the reconcilers."""

    client: Client
    options: UnitOptions
    retention_seconds: float
    term: Callable[[], Term]
    now: Callable[[], datetime]
    rng: Random
    meter: Meter
    # Mints broker users for workers. Without it, all workers share the configured login.
    mint: Mint | None = None
    # How the gateway's replicas are read; None without a gateway.
    activity: ActivityOptions | None = None


class Informers:
    """Informers of every kind that the manager mirrors, by namespace for Pods and Deployments."""

    def __init__(self, context: ReconcilerContext) -> None:
        options = context.options
        stock, instance = options.stock_namespace, options.instance_namespace
        # Namespaces are configurable, but their names in metrics are not.
        places = (("stock", stock), ("instance", instance))
        self._context = context
        self.stock: Informer[GPUUnit] = self._of(
            "stock", GPU_UNITS, namespace=stock, indexes=caches.STOCK_INDEXES
        )
        self.units: Informer[GPUUnit] = self._of(
            "units",
            GPU_UNITS,
            namespace=instance,
            indexes={
                **caches.UNIT_INDEXES,
                SOURCE_POOL: by_source_pool,
                WAITING: by_wait,
            },
        )
        self.pools: Informer[StockPool] = self._of(
            "pools", STOCK_POOLS, namespace=stock, indexes=caches.POOL_INDEXES
        )
        self.deployments: dict[str, Informer[Deployment]] = {
            each: self._of(f"deployments-{place}", DEPLOYMENTS, namespace=each, selector=OURS)
            for place, each in places
        }
        self.pods: dict[str, Informer[Pod]] = {
            each: self._of(
                f"pods-{place}", PODS, namespace=each, selector=OURS, indexes=POD_INDEXES
            )
            for place, each in places
        }
        self.services: Informer[Service] = self._of(
            "services", SERVICES, namespace=instance, selector=OURS
        )
        self.policies: Informer[NetworkPolicy] = self._of(
            "policies", NETWORK_POLICIES, namespace=instance, selector=OURS
        )
        self.tombstones: Informer[ConfigMap] = self._of(
            "tombstones",
            CONFIG_MAPS,
            namespace=options.system_namespace,
            selector=TOMBSTONE_SELECTOR,
        )
        self.priorities: Informer[PriorityClass] = self._of("priorities", PRIORITY_CLASSES)
        self.storages: Informer[GPUStorage] = self._of(
            "storages",
            GPU_STORAGES,
            namespace=instance,
            indexes={**caches.STORAGE_INDEXES, HOLDER: by_holder},
        )
        # All claims: a foreign one with the name of a storage keeps that storage waiting.
        self.claims: Informer[VolumeClaim] = self._of("claims", VOLUME_CLAIMS, namespace=instance)
        self.classes: Informer[StorageClass] = self._of("classes", STORAGE_CLASSES)
        self.jobs: Informer[Job] = self._of("jobs", JOBS, namespace=instance, selector=OURS)

    def all(self) -> tuple[Informer[Any], ...]:
        return (
            self.stock,
            self.units,
            self.pools,
            *self.deployments.values(),
            *self.pods.values(),
            self.services,
            self.policies,
            self.tombstones,
            self.priorities,
            self.storages,
            self.claims,
            self.classes,
            self.jobs,
        )

    def ours(self) -> tuple[Informer[Any], ...]:
        """Return the informers that must be up to date before a leader acts."""
        return (self.units, self.stock, self.pools, self.storages)

    def caches(self) -> Caches:
        return Caches(
            units=self.units,
            stock=self.stock,
            pools=self.pools,
            deployments=self.deployments,
            services=self.services,
            policies=self.policies,
            pods=self.pods,
            tombstones=self.tombstones,
            priorities=self.priorities,
            storages=self.storages,
            claims=self.claims,
            classes=self.classes,
            jobs=self.jobs,
        )

    def missing_priorities(self) -> list[str]:
        options = self._context.options
        wanted = (options.stock_priority, options.instance_priority)
        return [name for name in wanted if Key("", name) not in self.priorities.store]

    def _of(
        self,
        mirror: str,
        resource: Resource[ObjectT],
        *,
        namespace: str = "",
        selector: str = "",
        indexes: Mapping[str, Index[ObjectT]] | None = None,
    ) -> Informer[ObjectT]:
        is_everything = not (namespace or selector)
        return Informer(
            self._context.client,
            resource,
            rng=self._context.rng,
            selection=EVERYTHING
            if is_everything
            else Selection(namespace=namespace, label_selector=selector),
            mirror=mirror,
            indexes=indexes,
            meter=self._context.meter,
            is_checked=True,
        )
