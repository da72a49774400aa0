"""Caches of the manager, and their indexes."""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Final

import attrs

from gpuruntime.audit.snapshot import Snapshot
from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.pools import StockPool
from gpuruntime.models.kinds.storages import GPUStorage
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.cluster import ConfigMap, PriorityClass
from gpuruntime.models.kubernetes.metadata import Key, KubernetesObject
from gpuruntime.models.kubernetes.network import NetworkPolicy, Service
from gpuruntime.models.kubernetes.pods import Pod
from gpuruntime.models.kubernetes.volumes import Job, StorageClass, VolumeClaim
from gpuruntime.models.kubernetes.workloads import Deployment
from gpuruntime.operations.lookup.caches import Cache

# Index of Pods by the labels of their unit. Their owner is a ReplicaSet, which is not mirrored.
UNIT: Final = "unit"
# Index of a storage's helper Pods, by their label.
STORAGE: Final = "storage"
HOLDER: Final = "holder"
SOURCE_POOL: Final = "source-pool"


@attrs.frozen(kw_only=True, slots=True)
class Caches:
    """Caches of the manager; Deployments and Pods have one cache for each namespace."""

    units: Cache[GPUUnit]
    stock: Cache[GPUUnit]
    pools: Cache[StockPool]
    deployments: Mapping[str, Cache[Deployment]]
    services: Cache[Service]
    policies: Cache[NetworkPolicy]
    pods: Mapping[str, Cache[Pod]]
    tombstones: Cache[ConfigMap]
    priorities: Cache[PriorityClass]
    storages: Cache[GPUStorage]
    claims: Cache[VolumeClaim]
    classes: Cache[StorageClass]
    jobs: Cache[Job]

    def pods_of(self, unit: Key, *, uid: str) -> tuple[Pod, ...]:
        """Return the Pods with the unit's name and the uid; those of older versions have none."""
        return tuple(self.pods[unit.namespace].store.by_index(UNIT, (unit.name, uid)))

    def helper_pods_of(self, storage: Key) -> tuple[Pod, ...]:
        return tuple(self.pods[storage.namespace].store.by_index(STORAGE, storage.name))

    def snapshot(self) -> Snapshot:
        """Return a snapshot for the audit; each kind is as current as its cache."""
        deployments = (cache.store.values() for cache in self.deployments.values())
        pods = (cache.store.values() for cache in self.pods.values())
        return Snapshot(
            stock=tuple(self.stock.store.values()),
            units=tuple(self.units.store.values()),
            pools=tuple(self.pools.store.values()),
            storages=tuple(self.storages.store.values()),
            deployments=tuple(chain.from_iterable(deployments)),
            services=tuple(self.services.store.values()),
            policies=tuple(self.policies.store.values()),
            pods=tuple(chain.from_iterable(pods)),
            claims=tuple(self.claims.store.values()),
            jobs=tuple(self.jobs.store.values()),
            tombstones=tuple(self.tombstones.store.values()),
        )


def by_unit(value: KubernetesObject) -> Iterator[tuple[str, str]]:
    """Index UNIT: name and uid of the unit in the labels."""
    name = value.metadata.labels.get(labels.UNIT, "")
    if name:
        yield name, value.metadata.labels.get(labels.UNIT_UID, "")


def by_storage(value: KubernetesObject) -> Iterator[str]:
    """Index STORAGE: the name of the storage in the label."""
    name = value.metadata.labels.get(labels.STORAGE, "")
    if name:
        yield name


def by_holder(storage: GPUStorage) -> Iterator[str]:
    """Index HOLDER: the name of the unit that holds the storage."""
    if storage.status.holder is not None:
        yield storage.status.holder.name


def by_source_pool(unit: GPUUnit) -> Iterator[str]:
    """Index SOURCE_POOL: the pool whose stock an active unit took."""
    source = provenance.source_of(unit)
    if source is not None:
        yield source.name.rpartition("-")[0]
