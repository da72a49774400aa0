"""Pure decisions about a storage's claim: its next write, and the verdict on its volume.

A claim that once had a volume is never created again: an empty volume would hide the loss.
"""

from typing import Final, TypeAlias

import attrs

from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.reasons import StorageReason
from gpuruntime.models.kinds.storages import GPU_STORAGES, GPUStorage
from gpuruntime.models.kubernetes.conditions import condition_of
from gpuruntime.models.kubernetes.quantities import InvalidQuantityError, parse_quantity
from gpuruntime.models.kubernetes.volumes import VOLUME_CLAIMS, StorageClass, VolumeClaim
from gpuruntime.reconcilers.storage.children import foreign_child, outlives
from gpuruntime.reconcilers.storage.verdict import StorageVerdict


@attrs.frozen(slots=True)
class MakeClaim:
    """Create the claim: there is none, and there never was a volume."""


@attrs.frozen(slots=True)
class ShelterClaim:
    """Remove the storage from the claim's owners, before the volume holds any data."""

    claim: VolumeClaim


@attrs.frozen(slots=True)
class GrowClaim:
    """Grow the claim to the size in the spec."""

    claim: VolumeClaim


ClaimWrite: TypeAlias = MakeClaim | ShelterClaim | GrowClaim

# Conditions of a claim that grows.
_GROWTH: Final = ("FileSystemResizePending", "Resizing")
_GROWTH_FAULTS: Final = ("ControllerResizeError", "NodeResizeError")


def claim_write(
    storage: GPUStorage, claim: VolumeClaim | None, storage_class: StorageClass | None
) -> ClaimWrite | None:
    """Return the next write of the claim, or None if nothing is to be done or would help."""
    if claim is None:
        return None if _had_volume(storage) else MakeClaim()
    if (shelter := shelter_of(storage, claim, storage_class)) is not None:
        return shelter
    may_grow = storage_class is not None and storage_class.allowVolumeExpansion
    may_grow = may_grow and not provenance.is_terminating(claim)
    if may_grow and claim.status.phase == "Bound" and _is_larger(storage.spec.size, claim.size):
        return GrowClaim(claim)
    return None


def shelter_of(
    storage: GPUStorage, claim: VolumeClaim | None, storage_class: StorageClass | None
) -> ShelterClaim | None:
    """Return the write that shelters the storage's own claim, or None if none is due.

    It waits while Kubernetes binds the claim: a patch between its writes makes them conflict, and
    it retries only after its period of 15 s.
    """
    if claim is None or not is_own(claim, storage) or provenance.is_terminating(claim):
        return None
    uid = storage.metadata.uid
    is_owned = any(each.uid == uid for each in claim.metadata.ownerReferences)
    return ShelterClaim(claim) if is_owned and may_be_mounted(claim, storage_class) else None


def is_own(claim: VolumeClaim, storage: GPUStorage) -> bool:
    return claim.storage_uid == storage.metadata.uid


def foreign_claim(storage: GPUStorage, claim: VolumeClaim) -> StorageVerdict | None:
    """Return a verdict if the claim is not the storage's own, else None.

    A claim that an earlier storage of this name left is never reused, because it may hold data.
    """
    if is_own(claim, storage):
        return None
    is_earlier = labels.OWNER_UID in claim.metadata.annotations
    if is_earlier and not provenance.is_terminating(claim):
        return StorageVerdict(
            reason=StorageReason.VOLUME_SYNC_FAILED,
            message=f"{VOLUME_CLAIMS.kind} {claim.metadata.key} belongs to an earlier "
            f"{GPU_STORAGES.kind} {storage.metadata.name}: it is left as it is; "
            "save what is on it, and delete it",
        )
    if is_earlier:
        message = outlives(VOLUME_CLAIMS, claim)
        return StorageVerdict(reason=StorageReason.VOLUME_PENDING, message=message)
    return foreign_child(
        VOLUME_CLAIMS,
        claim,
        storage,
        refused=StorageReason.VOLUME_SYNC_FAILED,
        waits=StorageReason.VOLUME_PENDING,
    )


def may_be_mounted(claim: VolumeClaim, storage_class: StorageClass | None) -> bool:
    """Return whether the claim has a volume, or gets one with its first Pod."""
    binds_late = storage_class is not None and storage_class.binds_late
    return binds_late or claim.status.phase not in ("", "Pending")


def volume_verdict(
    storage: GPUStorage,
    claim: VolumeClaim | None,
    storage_class: StorageClass | None,
    *,
    refusal: str = "",
) -> StorageVerdict:
    """Return the verdict on the claim; `refusal` says why the cluster refused its growth."""
    name = storage.metadata.name
    if claim is None and _had_volume(storage):
        return StorageVerdict(
            reason=StorageReason.VOLUME_LOST,
            message=f"claim {name} was removed, and what was on it: delete this storage",
        )
    if claim is None or claim.status.phase in ("", "Pending"):
        return _pending(name, claim, storage_class)
    if claim.status.phase == "Lost":
        return StorageVerdict(
            reason=StorageReason.VOLUME_LOST,
            message=f"claim {name} lost its volume {claim.spec.volumeName}: delete this storage",
        )
    if provenance.is_terminating(claim):
        return StorageVerdict(
            reason=StorageReason.VOLUME_ENDING,
            message=f"claim {name} is being deleted, and the volume goes with the last Pod that "
            "mounts it: save what is on it",
        )
    return _bound(storage, claim, storage_class, refusal)


def ending_verdict(storage: GPUStorage) -> StorageVerdict:
    """Return the verdict on a storage that is being deleted but still in use."""
    holder = storage.status.holder
    when = f"unit {holder.name} gives it back" if holder else "nobody reads it any more"
    return StorageVerdict(
        reason=StorageReason.VOLUME_ENDING,
        message=f"storage {storage.metadata.name} is being deleted, and what is on it goes "
        f"when {when}: save it before",
    )


def _pending(
    name: str, claim: VolumeClaim | None, storage_class: StorageClass | None
) -> StorageVerdict:
    if claim is not None and may_be_mounted(claim, storage_class):
        message = f"claim {name} gets its volume with the first Pod that mounts it"
        return StorageVerdict(is_true=True, reason=StorageReason.VOLUME_READY, message=message)
    message = f"claim {name} waits for its volume"
    which = claim.spec.storageClassName if claim else ""
    if which and storage_class is None:
        message += f": there is no class {which}, only a volume made by hand can serve it"
    return StorageVerdict(reason=StorageReason.VOLUME_PENDING, message=message)


def _bound(
    storage: GPUStorage, claim: VolumeClaim, storage_class: StorageClass | None, refusal: str
) -> StorageVerdict:
    """Return the verdict on a bound claim. It is ready even if it cannot grow."""
    name, has, wants = storage.metadata.name, claim.capacity or claim.size, storage.spec.size
    if not _is_larger(wants, has):
        return StorageVerdict(
            is_true=True, reason=StorageReason.VOLUME_READY, message=f"claim {name} holds {has}"
        )
    may_grow = storage_class is not None and storage_class.allowVolumeExpansion
    growth = _words_of(claim, _GROWTH)
    trouble = refusal or _words_of(claim, _GROWTH_FAULTS)
    if may_grow and not trouble:
        message = f"claim {name} holds {has} and grows to {wants}"
        return StorageVerdict(
            is_true=True,
            reason=StorageReason.VOLUME_READY,
            message=f"{message}: {growth}" if growth else message,
        )
    which = claim.spec.storageClassName or "of the volume"
    why = trouble or f"class {which} does not let volumes grow to {wants}"
    return StorageVerdict(
        is_true=True,
        reason=StorageReason.EXPANSION_REFUSED,
        message=f"claim {name} stays at {has}: {why}",
    )


def _words_of(claim: VolumeClaim, types: tuple[str, ...]) -> str:
    """Return type and message of the first of these conditions that holds, or nothing."""
    for type_ in types:
        found = condition_of(claim.status.conditions, type_)
        if found is not None and found.is_true:
            return f"{type_}: {found.message}" if found.message else type_
    return ""


def _had_volume(storage: GPUStorage) -> bool:
    return bool(storage.status.capacity)


def _is_larger(size: str, other: str) -> bool:
    try:
        return parse_quantity(size) > parse_quantity(other)
    except InvalidQuantityError:
        return False
