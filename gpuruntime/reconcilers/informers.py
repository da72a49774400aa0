"""What the manager mirrors of the cluster: informers, and what they are selected by."""

from collections.abc import Callable
from datetime import datetime
from random import Random
from typing import Any, Final

import attrs

from gpuruntime.informer.informer import Informer
from gpuruntime.inventory import stores
from gpuruntime.kube.client import Client
from gpuruntime.kube.watch import EVERYTHING, Selection
from gpuruntime.meter import Meter
from gpuruntime.models import labels
from gpuruntime.models.cluster import CONFIG_MAPS, PRIORITY_CLASSES, ConfigMap, PriorityClass
from gpuruntime.models.metadata import Key
from gpuruntime.models.network import SERVICES, Service
from gpuruntime.models.pods import PODS, Pod
from gpuruntime.models.pools import STOCK_POOLS, StockPool
from gpuruntime.models.tombstones import TOMBSTONE_SELECTOR
from gpuruntime.models.units import GPU_UNITS, GPUUnit
from gpuruntime.models.workloads import DEPLOYMENTS, Deployment
from gpuruntime.reconcilers.caches import SOURCE_POOL, UNIT, Caches, by_source_pool, by_unit
from gpuruntime.reconcilers.facts import WAITING, by_wait
from gpuruntime.reconcilers.options import UnitOptions
from gpuruntime.reconcilers.start_plan import Term

OURS: Final = f"{labels.MANAGED_BY}={labels.MANAGER}"


@attrs.frozen(kw_only=True, slots=True)
class Surroundings:
    """What the reconcilers are given from outside their room."""

    client: Client
    options: UnitOptions
    retention_seconds: float
    term: Callable[[], Term]
    now: Callable[[], datetime]
    rng: Random
    meter: Meter


class Informers:
    """What the manager mirrors; the keys of Pods and Deployments carry their namespace."""

    def __init__(self, around: Surroundings) -> None:
        options = around.options
        stock, instance = options.stock_namespace, options.instance_namespace
        self._around = around
        self.stock: Informer[GPUUnit] = self._of(
            GPU_UNITS, namespace=stock, indexes=stores.STOCK_INDEXES
        )
        self.units: Informer[GPUUnit] = self._of(
            GPU_UNITS,
            namespace=instance,
            indexes={**stores.UNIT_INDEXES, SOURCE_POOL: by_source_pool, WAITING: by_wait},
        )
        self.pools: Informer[StockPool] = self._of(
            STOCK_POOLS, namespace=stock, indexes=stores.POOL_INDEXES
        )
        self.deployments: dict[str, Informer[Deployment]] = {
            each: self._of(DEPLOYMENTS, namespace=each, selector=OURS)
            for each in (stock, instance)
        }
        self.pods: dict[str, Informer[Pod]] = {
            each: self._of(PODS, namespace=each, selector=OURS, indexes={UNIT: by_unit})
            for each in (stock, instance)
        }
        self.services: Informer[Service] = self._of(SERVICES, namespace=instance, selector=OURS)
        self.tombstones: Informer[ConfigMap] = self._of(
            CONFIG_MAPS, namespace=options.system_namespace, selector=TOMBSTONE_SELECTOR
        )
        self.priorities: Informer[PriorityClass] = self._of(PRIORITY_CLASSES)

    def all(self) -> tuple[Informer[Any], ...]:
        return (
            self.stock,
            self.units,
            self.pools,
            *self.deployments.values(),
            *self.pods.values(),
            self.services,
            self.tombstones,
            self.priorities,
        )

    def caches(self) -> Caches:
        return Caches(
            units=self.units,
            stock=self.stock,
            pools=self.pools,
            deployments=self.deployments,
            services=self.services,
            pods=self.pods,
            tombstones=self.tombstones,
            priorities=self.priorities,
        )

    def missing_priorities(self) -> list[str]:
        options = self._around.options
        wanted = (options.stock_priority, options.instance_priority)
        return [name for name in wanted if Key("", name) not in self.priorities.store]

    def _of(
        self, resource: Any, *, namespace: str = "", selector: str = "", indexes: Any = None
    ) -> Any:
        is_everything = not (namespace or selector)
        return Informer(
            self._around.client,
            resource,
            rng=self._around.rng,
            selection=EVERYTHING
            if is_everything
            else Selection(namespace=namespace, label_selector=selector),
            indexes=indexes,
            meter=self._around.meter,
            is_checked=True,
        )
