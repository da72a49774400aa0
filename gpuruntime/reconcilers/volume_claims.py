"""The claim of a storage: made once, grown where that is allowed, and nobody else's taken."""

import attrs
import structlog

from gpuruntime.inventory.stores import Cache
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import AlreadyExistsError
from gpuruntime.models.json import JsonObject
from gpuruntime.models.metadata import Key
from gpuruntime.models.reasons import StorageReason
from gpuruntime.models.storages import GPUStorage
from gpuruntime.models.volumes import VOLUME_CLAIMS, StorageClass, VolumeClaim
from gpuruntime.reconcilers.child_keeper import REFUSALS, ChildSyncError, is_owned_by
from gpuruntime.reconcilers.storage_children import claim_of, demand_ours
from gpuruntime.reconcilers.storage_plan import (
    GrowClaim,
    KeepClaim,
    MakeClaim,
    StorageVerdict,
    claim_move,
    volume_verdict,
)

log = structlog.get_logger()


@attrs.frozen(kw_only=True, slots=True)
class VolumeClaims:
    client: Client
    claims: Cache[VolumeClaim]
    classes: Cache[StorageClass]

    async def keep(self, storage: GPUStorage) -> tuple[VolumeClaim | None, StorageVerdict]:
        """Raises ChildSyncError where there can be no claim; one that cannot grow still serves."""
        claim, refusal = self.claims.store.get(storage.metadata.key), ""
        if claim is not None:
            self._demand_ours(claim, storage)
        match claim_move(storage, claim, self._class_of(claim)):
            case MakeClaim():
                claim = await self._make(storage)
            case GrowClaim():
                claim, refusal = await self._grow(storage, claim)
            case KeepClaim():
                pass
        return claim, volume_verdict(storage, claim, self._class_of(claim), refusal=refusal)

    def is_there(self, storage: GPUStorage) -> bool:
        """With a volume, and its own."""
        claim = self.claims.store.get(storage.metadata.key)
        return claim is not None and is_owned_by(claim, storage) and claim.status.phase == "Bound"

    async def _make(self, storage: GPUStorage) -> VolumeClaim:
        body, namespace = claim_of(storage), storage.metadata.namespace
        try:
            made = await self.client.create(VOLUME_CLAIMS, body, namespace=namespace)
        except AlreadyExistsError:
            made = await self.client.get(VOLUME_CLAIMS, storage.metadata.key)
            self._demand_ours(made, storage)
        except REFUSALS as error:
            raise ChildSyncError(StorageReason.VOLUME_SYNC_FAILED, str(error)) from error
        self.claims.write_through(made)
        return made

    async def _grow(
        self, storage: GPUStorage, claim: VolumeClaim | None
    ) -> tuple[VolumeClaim | None, str]:
        requests: JsonObject = {"storage": storage.spec.size}
        patch: JsonObject = {"spec": {"resources": {"requests": requests}}}
        version = claim.metadata.resourceVersion if claim else ""
        key = storage.metadata.key
        try:
            grown = await self.client.patch(VOLUME_CLAIMS, key, patch, resource_version=version)
        except REFUSALS as error:
            return claim, str(error)
        self.claims.write_through(grown)
        log.info("claim grown", size=storage.spec.size)
        return grown, ""

    def _class_of(self, claim: VolumeClaim | None) -> StorageClass | None:
        name = claim.spec.storageClassName if claim else ""
        return self.classes.store.get(Key("", name)) if name else None

    @staticmethod
    def _demand_ours(claim: VolumeClaim, storage: GPUStorage) -> None:
        demand_ours(
            VOLUME_CLAIMS,
            claim,
            storage,
            refused=StorageReason.VOLUME_SYNC_FAILED,
            waits=StorageReason.VOLUME_PENDING,
        )
