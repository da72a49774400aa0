"""What the manager mirrors of the cluster, and by what it finds things there."""

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

# A Pod's unit is known by its label: its owner is a ReplicaSet, which is not mirrored.
UNIT: Final = "unit"
# Of a storage's helpers, known by their label too.
STORAGE: Final = "storage"
HOLDER: Final = "holder"
SOURCE_POOL: Final = "source-pool"


@attrs.frozen(kw_only=True, slots=True)
class Caches:
    """Units, Deployments and Pods are of both namespaces; the keys tell them apart."""

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

    def pods_of(self, key: Key) -> tuple[Pod, ...]:
        return tuple(self.pods[key.namespace].store.by_index(UNIT, key.name))

    def helper_pods_of(self, storage: Key) -> tuple[Pod, ...]:
        return tuple(self.pods[storage.namespace].store.by_index(STORAGE, storage.name))

    def snapshot(self) -> Snapshot:
        """For the audit; each kind as it is known now."""
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


def by_unit(value: KubernetesObject) -> Iterator[str]:
    """The index UNIT."""
    name = value.metadata.labels.get(labels.UNIT, "")
    if name:
        yield name


def by_storage(value: KubernetesObject) -> Iterator[str]:
    """The index STORAGE."""
    name = value.metadata.labels.get(labels.STORAGE, "")
    if name:
        yield name


def by_holder(storage: GPUStorage) -> Iterator[str]:
    """The index HOLDER: the name of the unit that holds it."""
    if storage.status.holder is not None:
        yield storage.status.holder.name


def by_source_pool(unit: GPUUnit) -> Iterator[str]:
    """The index SOURCE_POOL: the pool whose stock an active unit took."""
    source = provenance.source_of(unit)
    if source is not None:
        yield source.name.rpartition("-")[0]
