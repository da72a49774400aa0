"""Holders of storages: taken for a unit by guarded patch, given back after its Pods are gone."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import structlog

from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import NotFoundError
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.reasons import MountReason
from gpuruntime.models.kinds.storages import GPUStorage, Holder
from gpuruntime.models.kinds.units import CHILD_PREFIX, GPUUnit
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.names import cut_with_hash
from gpuruntime.models.kubernetes.pods import PODS, Pod
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS, Deployment
from gpuruntime.operations.lookup.caches import STORAGE
from gpuruntime.reconcilers.caches import HOLDER, Caches
from gpuruntime.reconcilers.storage.deadlock_plan import Holdings, wait_cycle_of, with_wait_cycle
from gpuruntime.reconcilers.storage.mount_plan import Blocked, Mountable, Mounts, Takes, mounts_of
from gpuruntime.reconcilers.storage.observed import Holding
from gpuruntime.reconcilers.storage.writes import StorageWrites
from gpuruntime.reconcilers.unit.pod_failures import ENDED
from gpuruntime.reconcilers.unit.start_locks import StartLocks
from gpuruntime.reconcilers.unit.start_plan import Term

log = structlog.get_logger()


class StorageHolders:
    """StorageHolders takes storages for units, and gives them back.

    A storage is not given back while any request, also of an earlier leader, may still start its
    holder.
    """

    def __init__(
        self,
        client: Client,
        caches: Caches,
        *,
        writes: StorageWrites,
        starts: StartLocks,
        term: Callable[[], Term],
    ) -> None:
        self._client = client
        self._caches = caches
        self._writes = writes
        self._starts = starts
        self._term = term

    def look(self, unit: GPUUnit) -> Mounts:
        """Return by the caches whether the unit may mount its storages, or which it may take."""
        namespace = unit.metadata.namespace
        names = [mount.name for mount in unit.spec.storageMounts]
        rivals = {name: self._caches.units.store.by_index(STORAGE, name) for name in names}
        holdings = self._holdings(namespace)
        mounts = mounts_of(
            unit,
            holdings.storage,
            rivals,
            is_stuck=lambda other: bool(wait_cycle_of(other, holdings)),
        )
        if isinstance(mounts, Blocked) and mounts.reason is MountReason.STORAGE_HELD:
            return with_wait_cycle(unit, mounts, holdings)
        return mounts

    async def take(self, unit: GPUUnit) -> Mountable | Blocked:
        """Take all storages of the unit, or return why it cannot mount them.

        The caller holds the unit's start lock. Raise ConflictError if another write came first.
        """
        found = self.look(unit)
        if not isinstance(found, Takes):
            return found
        for storage in found.storages:
            await self._write(storage, {"name": unit.metadata.name, "uid": unit.metadata.uid})
            log.info("storage taken", storage=storage.metadata.name)
        found = self.look(unit)
        # Between two patches, a storage may have failed or been deleted.
        return found if not isinstance(found, Takes) else await self.take(unit)

    @asynccontextmanager
    async def settled(self, storage: GPUStorage) -> AsyncIterator[Holding]:
        """Yield whether a unit holds the storage; while it may be given back, none starts.

        The start lock of the holder is held from the live reads to the write that gives back.
        """
        holder = storage.status.holder
        if holder is None or self._wants(storage, holder):
            yield Holding.FREE if holder is None else Holding.WANTED
            return
        async with self._starts.pause(Key(storage.metadata.namespace, holder.name)):
            if not await self._keeps(storage, holder):
                yield Holding.LET_GO
                return
        yield Holding.WANTED if self._wants(storage, holder) else Holding.KEPT

    async def give_back(self, storage: GPUStorage) -> None:
        """Record that no unit holds the storage; raise ConflictError if it has changed since."""
        await self._write(storage, None)
        holder = storage.status.holder
        log.info(
            "storage given back",
            storage=storage.metadata.name,
            unit=holder.name if holder else "",
        )

    def _holdings(self, namespace: str) -> Holdings:
        storages, units = self._caches.storages.store, self._caches.units.store
        return Holdings(
            storage=lambda name: storages.get(Key(namespace, name)),
            of=lambda unit: storages.by_index(HOLDER, unit),
            unit=lambda name: units.get(Key(namespace, name)),
            asking=lambda storage: units.by_index(STORAGE, storage),
        )

    def _wants(self, storage: GPUStorage, holder: Holder) -> bool:
        key = Key(storage.metadata.namespace, holder.name)
        unit = self._caches.units.store.get(key)
        if unit is None or unit.metadata.uid != holder.uid or provenance.is_terminating(unit):
            return False
        if unit.spec.is_function_template:  # its workers mount the storage instead
            return False
        return any(mount.name == storage.metadata.name for mount in unit.spec.storageMounts)

    async def _keeps(self, storage: GPUStorage, holder: Holder) -> bool:
        """Return whether the holder may still mount the storage, or mounts it again."""
        if self._may_start(Key(storage.metadata.namespace, holder.name)):
            return True
        if self._wants(storage, holder) or await self._may_mount(storage, holder):
            return True
        return self._wants(storage, holder)  # the mount may have come back during the reads

    def _may_start(self, unit: Key) -> bool:
        """Return whether a lost request of ours or an earlier leader's may start the unit."""
        return bool(self._starts.unsettled_seconds((unit,)) or self._term().unsettled_seconds)

    async def _may_mount(self, storage: GPUStorage, holder: Holder) -> bool:
        """Read the cluster live: a cache that lags must not give the volume to two Pods."""
        namespace, claim = storage.metadata.namespace, storage.metadata.name
        selector = f"{labels.UNIT}={holder.name}"
        page = await self._client.list_page(PODS, namespace=namespace, label_selector=selector)
        if any(_uses(pod, storage) for pod in page.items):
            return True
        deployment = await self._deployment(Key(namespace, holder.name))
        if deployment is None:
            return False
        owner = deployment.metadata.controller_owner
        is_holders = owner is not None and owner.uid == holder.uid
        return is_holders and f'"claimName":"{claim}"'.encode() in bytes(deployment.spec)

    async def _deployment(self, unit: Key) -> Deployment | None:
        key = Key(unit.namespace, cut_with_hash(f"{CHILD_PREFIX}{unit.name}"))
        try:
            return await self._client.get(DEPLOYMENTS, key)
        except NotFoundError:
            return None

    async def _write(self, storage: GPUStorage, holder: JsonObject | None) -> None:
        mounted: list[Any] = [holder["name"]] if holder else []
        patch: JsonObject = {"status": {"holder": holder, "mountedBy": mounted}}
        await self._writes.patch(storage, patch, subresource="status")


def _uses(pod: Pod, storage: GPUStorage) -> bool:
    return pod.mounts(storage.metadata.name) and pod.status.phase not in ENDED
