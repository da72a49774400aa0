"""Pure decisions about volumes, and the steps that plans of claims and volumes return."""

from enum import StrEnum
from typing import Final

import attrs

from gpuruntime.embedded.kinds.cluster_objects import Claim, ClaimReference, PersistentVolume
from gpuruntime.kube.events import Note
from gpuruntime.models.encoding.json import JsonObject

CLAIM_PROTECTION: Final = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION: Final = "kubernetes.io/pv-protection"


class Write(StrEnum):
    NOTHING = "nothing"
    CLAIM = "claim"
    CLAIM_STATUS = "claim status"
    NEW_VOLUME = "new volume"
    VOLUME = "volume"
    VOLUME_STATUS = "volume status"
    NO_VOLUME = "no volume"


@attrs.frozen(kw_only=True, slots=True)
class Step:
    """The next write, or none; the body is a new volume or a merge patch."""

    write: Write = Write.NOTHING
    volume: str = ""
    body: JsonObject = attrs.field(factory=dict)
    note: Note | None = None


NO_STEP: Final = Step()


def next_for_volume(volume: PersistentVolume, claim: Claim | None) -> Step:
    """Return the next step; `claim` is the claim with the referenced name, whatever its uid."""
    metadata, reference = volume.metadata, volume.spec.claimRef
    is_held = claim is not None and reference is not None and is_of(reference, claim)
    if metadata.deletionTimestamp is not None:
        return NO_STEP if is_held else unprotected(Write.VOLUME, volume)
    if reference is None or not reference.uid:
        return _phase(volume, "Available")
    if is_held and claim is not None:
        is_mutual = claim.spec.volumeName in ("", metadata.name)
        return _phase(volume, "Bound" if is_mutual else "Released")
    if volume.status.phase != "Released":
        return _phase(volume, "Released")
    if volume.spec.persistentVolumeReclaimPolicy == "Delete":
        return Step(write=Write.NO_VOLUME, volume=metadata.name)
    return NO_STEP


def unprotected(write: Write, value: Claim | PersistentVolume) -> Step:
    """Remove the protection finalizers, because nothing uses the object any more."""
    present = value.metadata.finalizers
    kept = [each for each in present if each not in (CLAIM_PROTECTION, VOLUME_PROTECTION)]
    if len(kept) == len(present):
        return NO_STEP
    volume = value.metadata.name if write is Write.VOLUME else ""
    return Step(write=write, volume=volume, body={"metadata": {"finalizers": kept}})


def is_of(reference: ClaimReference, claim: Claim) -> bool:
    return reference.uid == claim.metadata.uid


def _phase(volume: PersistentVolume, phase: str) -> Step:
    if volume.status.phase == phase:
        return NO_STEP
    body: JsonObject = {"status": {"phase": phase}}
    return Step(write=Write.VOLUME_STATUS, volume=volume.metadata.name, body=body)
