"""The file server of a storage: it exists while it is enabled and the volume is ready."""

from typing import Any

import attrs

from gpuruntime.controller.controller import Result
from gpuruntime.models.kinds.reasons import StorageReason
from gpuruntime.models.kinds.storages import GPUStorage, accessor_name
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.network import NetworkPolicy, Service
from gpuruntime.models.kubernetes.pods import Pod
from gpuruntime.models.kubernetes.workloads import Deployment
from gpuruntime.reconcilers.caches import Caches
from gpuruntime.reconcilers.children.keeper import ChildKeeper, ChildSyncError
from gpuruntime.reconcilers.options import UnitOptions
from gpuruntime.reconcilers.storage.children import (
    Placing,
    accessor_deployment,
    accessor_policy,
    accessor_service,
    placing_of,
)
from gpuruntime.reconcilers.storage.holders import StorageHolders
from gpuruntime.reconcilers.storage.placement_plan import placing_of_server
from gpuruntime.reconcilers.storage.plan import StorageVerdict
from gpuruntime.reconcilers.storage.status import ACCESSOR_OFF, ACCESSOR_WAITS, accessor_verdict
from gpuruntime.reconcilers.unit.pod_failures import current_pod, is_unschedulable

REFUSED_SECONDS = 15.0


@attrs.frozen(kw_only=True, slots=True)
class FileServers:
    caches: Caches
    options: UnitOptions
    holds: StorageHolders
    deployments: ChildKeeper[Deployment]
    services: ChildKeeper[Service]
    policies: ChildKeeper[NetworkPolicy]

    async def keep(
        self, storage: GPUStorage, *, is_ready: bool
    ) -> tuple[StorageVerdict, Result | None]:
        key = Key(storage.metadata.namespace, accessor_name(storage.metadata.name))
        if not storage.spec.accessor.enabled:
            await self._drop(storage, key)
            return ACCESSOR_OFF, None
        if not is_ready:
            await self._drop(storage, key)  # a prepare must be the only writer of the volume
            return ACCESSOR_WAITS, None
        try:
            await self.policies.keep(storage, key, accessor_policy(storage, self.options))
            await self.services.keep(storage, key, accessor_service(storage, self.options))
            placing = self._placing(storage, key)
            desired = accessor_deployment(storage, self.options, placing)
            deployment = await self.deployments.keep(storage, key, desired)
        except ChildSyncError as error:
            verdict = StorageVerdict(reason=StorageReason.ACCESSOR_FAILED, message=str(error))
            return verdict, Result(REFUSED_SECONDS)
        return accessor_verdict(storage, deployment, self._pods(storage, key), placing), None

    def is_there(self, storage: GPUStorage) -> bool:
        key = Key(storage.metadata.namespace, accessor_name(storage.metadata.name))
        return self.deployments.owned(key, storage) is not None

    async def _drop(self, storage: GPUStorage, key: Key) -> None:
        keepers: tuple[ChildKeeper[Any], ...] = (self.deployments, self.services, self.policies)
        for keeper in keepers:
            await keeper.drop(storage, key)

    def _pods(self, storage: GPUStorage, key: Key) -> tuple[Pod, ...]:
        helpers = self.caches.helper_pods_of(storage.metadata.key)
        return tuple(pod for pod in helpers if pod.metadata.name.startswith(f"{key.name}-"))

    def _placing(self, storage: GPUStorage, key: Key) -> Placing:
        deployment = self.deployments.owned(key, storage)
        before = placing_of(deployment) if deployment else Placing()
        is_stuck = is_unschedulable(current_pod(self._pods(storage, key)))
        return placing_of_server(self.holds.holders_pods(storage), before, is_stuck=is_stuck)
