"""The claim of a storage: created once, grown if its class allows it, never taken from others.

Only this code deletes a claim, after no Pod mounts it any more. A claim owned by its storage would
be deleted earlier: a foreground deletion collects owned objects before their owner.
"""

import attrs
import structlog

from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import AlreadyExistsError, NotFoundError
from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.reasons import StorageReason
from gpuruntime.models.kinds.storages import GPU_STORAGES, GPUStorage
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.volumes import VOLUME_CLAIMS, StorageClass, VolumeClaim
from gpuruntime.operations.lookup.caches import Cache
from gpuruntime.reconcilers.children.keeper import REFUSALS, ChildSyncError
from gpuruntime.reconcilers.storage.children import claim_marks, claim_of, demand_ours, outlives
from gpuruntime.reconcilers.storage.plan import (
    GrowClaim,
    KeepClaim,
    MakeClaim,
    StorageVerdict,
    claim_move,
    may_be_mounted,
    volume_verdict,
)

log = structlog.get_logger()


@attrs.frozen(kw_only=True, slots=True)
class VolumeClaims:
    client: Client
    claims: Cache[VolumeClaim]
    classes: Cache[StorageClass]

    async def keep(self, storage: GPUStorage) -> tuple[VolumeClaim | None, StorageVerdict]:
        """Keep the claim; raise ChildSyncError if there can be none.

        A claim that cannot grow still serves.
        """
        claim, refusal = self.claims.store.get(storage.metadata.key), ""
        if claim is not None:
            _demand_own(claim, storage)
            claim = await self._sheltered(storage, claim)
        match claim_move(storage, claim, self._class_of(claim)):
            case MakeClaim():
                claim = await self._make(storage)
            case GrowClaim():
                claim, refusal = await self._grow(storage, claim)
            case KeepClaim():
                pass
        return claim, volume_verdict(storage, claim, self._class_of(claim), refusal=refusal)

    def is_there(self, storage: GPUStorage) -> bool:
        """Return whether the storage's own claim is bound to a volume."""
        claim = self.claims.store.get(storage.metadata.key)
        return claim is not None and _is_own(claim, storage) and claim.status.phase == "Bound"

    async def shelter(self, storage: GPUStorage) -> None:
        """Remove the owner reference of the claim, also if an earlier version created it."""
        claim = self.claims.store.get(storage.metadata.key)
        if claim is not None and _is_own(claim, storage):
            await self._sheltered(storage, claim)

    async def remove(self, storage: GPUStorage) -> None:
        """Delete the claim, read live, because the cache may not hold it yet."""
        key = storage.metadata.key
        try:
            claim = await self.client.get(VOLUME_CLAIMS, key)
            if not _is_own(claim, storage) or provenance.is_terminating(claim):
                return
            await self.client.delete(VOLUME_CLAIMS, key, uid=claim.metadata.uid)
        except NotFoundError:
            return
        log.info("claim removed")

    async def _make(self, storage: GPUStorage) -> VolumeClaim:
        body, namespace = claim_of(storage), storage.metadata.namespace
        try:
            made = await self.client.create(VOLUME_CLAIMS, body, namespace=namespace)
        except AlreadyExistsError:
            made = await self.client.get(VOLUME_CLAIMS, storage.metadata.key)
            _demand_own(made, storage)
        except REFUSALS as error:
            raise ChildSyncError(StorageReason.VOLUME_SYNC_FAILED, str(error)) from error
        self.claims.write_through(made)
        return await self._sheltered(storage, made)

    async def _sheltered(self, storage: GPUStorage, claim: VolumeClaim) -> VolumeClaim:
        """Remove the storage from the claim's owners before the volume holds any data.

        Skip this while Kubernetes binds the claim: a patch between its writes makes them conflict,
        and it retries only after its period of 15 s.
        """
        owners = claim.metadata.ownerReferences
        others = [codec.to_json(each) for each in owners if each.uid != storage.metadata.uid]
        is_bare = not may_be_mounted(claim, self._class_of(claim))
        if is_bare or len(others) == len(owners) or provenance.is_terminating(claim):
            return claim
        marks: JsonObject = {"annotations": claim_marks(storage), "ownerReferences": others}
        try:
            sheltered = await self.client.patch(
                VOLUME_CLAIMS,
                claim.metadata.key,
                {"metadata": marks},
                resource_version=claim.metadata.resourceVersion,
            )
        except REFUSALS as error:
            raise ChildSyncError(StorageReason.VOLUME_SYNC_FAILED, str(error)) from error
        self.claims.write_through(sheltered)
        return sheltered

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


def _is_own(claim: VolumeClaim, storage: GPUStorage) -> bool:
    return claim.storage_uid == storage.metadata.uid


def _demand_own(claim: VolumeClaim, storage: GPUStorage) -> None:
    """Raise ChildSyncError unless the claim is the storage's own.

    A claim that an earlier storage of this name left is never reused, because it may hold data.
    """
    if _is_own(claim, storage):
        return
    is_earlier = labels.OWNER_UID in claim.metadata.annotations
    if is_earlier and not provenance.is_terminating(claim):
        raise ChildSyncError(
            StorageReason.VOLUME_SYNC_FAILED,
            f"{VOLUME_CLAIMS.kind} {claim.metadata.key} belongs to an earlier "
            f"{GPU_STORAGES.kind} {storage.metadata.name}: it is left as it is; "
            "save what is on it, and delete it",
        )
    if is_earlier:
        raise ChildSyncError(StorageReason.VOLUME_PENDING, outlives(VOLUME_CLAIMS, claim))
    demand_ours(
        VOLUME_CLAIMS,
        claim,
        storage,
        refused=StorageReason.VOLUME_SYNC_FAILED,
        waits=StorageReason.VOLUME_PENDING,
    )
