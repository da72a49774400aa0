"""Pure decisions about claims and their volumes, one write at a time.

A claim is bound in the order of Kubernetes: first the volume names the claim, then the claim names
the volume, then the claim's status is set. If a write is lost, the next reconcile continues from
there.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from gpuruntime.embedded.controllers.object_patches import patch_between, wire
from gpuruntime.embedded.controllers.volume_plan import (
    NO_STEP,
    VOLUME_PROTECTION,
    Step,
    Write,
    is_of,
    unprotected,
)
from gpuruntime.embedded.kinds.cluster_objects import (
    Claim,
    ClaimReference,
    ClaimStatus,
    PersistentVolume,
    StorageClass,
)
from gpuruntime.embedded.scheduler.node_resources import whole
from gpuruntime.kube.events import Note
from gpuruntime.models.encoding.json import JsonObject

PROVISIONER: Final = "kubernetes.io/host-path"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
PROVISIONERS: Final = (
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/storage-provisioner",
)
DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"


@attrs.frozen(kw_only=True, slots=True)
class ClaimView:
    """A claim with the volumes that suit it, that it names, or that name it."""

    claim: Claim
    volumes: tuple[PersistentVolume, ...] = ()
    classes: Mapping[str, StorageClass] = attrs.field(factory=dict)
    is_used: bool = False

    @property
    def storage_class(self) -> StorageClass | None:
        return self.classes.get(self.claim.spec.storageClassName or "")

    @property
    def requested(self) -> int:
        return _size(self.claim.spec.resources.requests)

    def named(self, name: str) -> PersistentVolume | None:
        return next((each for each in self.volumes if each.metadata.name == name), None)


def next_for_claim(view: ClaimView, *, volumes_root: str) -> Step:
    metadata = view.claim.metadata
    if metadata.deletionTimestamp is not None:
        return NO_STEP if view.is_used else unprotected(Write.CLAIM, view.claim)
    if view.claim.spec.volumeName:
        return _bound(view)
    if view.claim.status.phase != "Pending":
        return _status(view.claim, ClaimStatus(phase="Pending"))
    return _unbound(view, volumes_root)


def default_class(classes: Iterable[StorageClass]) -> StorageClass | None:
    """Return the youngest of the classes marked as default, or None."""
    marked = [each for each in classes if each.metadata.annotations.get(DEFAULT_CLASS) == "true"]
    return max(marked, key=_age, default=None)


def _age(storage_class: StorageClass) -> tuple[float, str]:
    created_at = storage_class.metadata.creationTimestamp
    return created_at.timestamp() if created_at else 0.0, storage_class.metadata.name


def _bound(view: ClaimView) -> Step:
    """Decide about a claim that names a volume, by whether the volume names the claim."""
    claim = view.claim
    volume = view.named(claim.spec.volumeName)
    is_completed = BIND_COMPLETED in claim.metadata.annotations
    reference = volume.spec.claimRef if volume else None
    if volume is not None and (reference is None or not reference.uid):
        return _claimed(volume, claim)
    if volume is None or reference is None or not is_of(reference, claim):
        return _lost(view) if is_completed else NO_STEP
    if not is_completed:
        annotations: JsonObject = {BIND_COMPLETED: "yes"}
        return Step(write=Write.CLAIM, body={"metadata": {"annotations": annotations}})
    if _may_grow(view, volume) and view.requested > _size(volume.spec.capacity):
        capacity = {"storage": claim.spec.resources.requests["storage"]}
        return Step(
            write=Write.VOLUME,
            volume=volume.metadata.name,
            body={"spec": {"capacity": capacity}},
            note=Note("VolumeResizeSuccessful", "Resize volume succeeded"),
        )
    modes, capacity = volume.spec.accessModes, volume.spec.capacity
    return _status(claim, ClaimStatus(phase="Bound", accessModes=modes, capacity=capacity))


def _may_grow(view: ClaimView, volume: PersistentVolume) -> bool:
    storage_class = view.storage_class
    is_ours = volume.metadata.annotations.get(PROVISIONED_BY) == PROVISIONER
    return is_ours and storage_class is not None and storage_class.allowVolumeExpansion


def _lost(view: ClaimView) -> Step:
    words = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
    step = _status(view.claim, ClaimStatus(phase="Lost"))
    return attrs.evolve(step, note=Note("ClaimLost", words, is_warning=True))


def _unbound(view: ClaimView, volumes_root: str) -> Step:
    claim = view.claim
    if claim.spec.storageClassName is None:
        chosen = default_class(view.classes.values())
        if chosen is not None:
            name = chosen.metadata.name
            return Step(write=Write.CLAIM, body={"spec": {"storageClassName": name}})
    storage_class = view.storage_class
    waits = storage_class is not None and storage_class.waits_for_consumer
    may_choose = not waits or SELECTED_NODE in claim.metadata.annotations
    volume = _suitable(view, may_choose=may_choose)
    if volume is not None:
        reference = volume.spec.claimRef
        return _naming(volume) if reference and reference.uid else _claimed(volume, claim)
    if not may_choose:
        words = "waiting for first consumer to be created before binding"
        return Step(note=Note("WaitForFirstConsumer", words))
    return _provisioned(view, storage_class, volumes_root)


def _suitable(view: ClaimView, *, may_choose: bool) -> PersistentVolume | None:
    """Return a volume that names the claim, else the smallest free one that is large enough."""
    for volume in view.volumes:
        reference = volume.spec.claimRef
        if reference is not None and _is_for(reference, view.claim):
            return volume
    if not may_choose:
        return None
    free = (each for each in view.volumes if each.spec.claimRef is None and _suits(each, view))
    return min(free, key=_size_and_name, default=None)


def _suits(volume: PersistentVolume, view: ClaimView) -> bool:
    wanted, offered = view.claim.spec, volume.spec
    return (
        volume.metadata.deletionTimestamp is None
        and offered.storageClassName == (wanted.storageClassName or "")
        and set(wanted.accessModes) <= set(offered.accessModes)
        and offered.volumeMode == wanted.volumeMode
        and _size(offered.capacity) >= view.requested
    )


def _size_and_name(volume: PersistentVolume) -> tuple[int, str]:
    return _size(volume.spec.capacity), volume.metadata.name


def _provisioned(view: ClaimView, storage_class: StorageClass | None, volumes_root: str) -> Step:
    claim = view.claim
    if not claim.spec.storageClassName:
        words = "no persistent volumes available for this claim and no storage class is set"
        return Step(note=Note("FailedBinding", words))
    if storage_class is None:
        words = f'storageclass.storage.k8s.io "{claim.spec.storageClassName}" not found'
        return Step(note=Note("ProvisioningFailed", words, is_warning=True))
    provisioner = storage_class.provisioner
    if any(claim.metadata.annotations.get(name) != provisioner for name in PROVISIONERS):
        annotations: JsonObject = dict.fromkeys(PROVISIONERS, provisioner)
        return Step(write=Write.CLAIM, body={"metadata": {"annotations": annotations}})
    if provisioner != PROVISIONER:
        return Step(note=_external(provisioner))
    body = _new_volume(claim, storage_class, volumes_root)
    words = f"Successfully provisioned volume {_name_for(claim)} using {PROVISIONER}"
    return Step(write=Write.NEW_VOLUME, body=body, note=Note("ProvisioningSucceeded", words))


def _external(provisioner: str) -> Note:
    words = (
        f"Waiting for a volume to be created either by the external provisioner '{provisioner}' "
        "or manually by the system administrator. If volume creation is delayed, please verify "
        "that the provisioner is running and correctly registered."
    )
    return Note("ExternalProvisioning", words)


def _new_volume(claim: Claim, storage_class: StorageClass, volumes_root: str) -> JsonObject:
    name = _name_for(claim)
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": name,
            "annotations": {PROVISIONED_BY: PROVISIONER, BOUND_BY_CONTROLLER: "yes"},
            "finalizers": [VOLUME_PROTECTION],
        },
        "spec": {
            "capacity": {"storage": claim.spec.resources.requests["storage"]},
            "accessModes": list(claim.spec.accessModes),
            "volumeMode": claim.spec.volumeMode,
            "storageClassName": storage_class.metadata.name,
            "persistentVolumeReclaimPolicy": storage_class.reclaimPolicy,
            "claimRef": _reference_to(claim),
            "hostPath": {"path": f"{volumes_root}/{name}", "type": ""},
        },
    }


def _name_for(claim: Claim) -> str:
    return f"pvc-{claim.metadata.uid}"


def _reference_to(claim: Claim) -> JsonObject:
    metadata = claim.metadata
    reference = ClaimReference(namespace=metadata.namespace, name=metadata.name, uid=metadata.uid)
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **wire(reference)}


def _claimed(volume: PersistentVolume, claim: Claim) -> Step:
    """Let the volume name the claim; a name set by a user is not marked as the controller's."""
    body: JsonObject = {"spec": {"claimRef": _reference_to(claim)}}
    if volume.spec.claimRef is None:
        body["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
    return Step(write=Write.VOLUME, volume=volume.metadata.name, body=body)


def _naming(volume: PersistentVolume) -> Step:
    annotations = {BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"}
    return Step(
        write=Write.CLAIM,
        body={
            "metadata": {"annotations": annotations},
            "spec": {"volumeName": volume.metadata.name},
        },
    )


def _status(claim: Claim, status: ClaimStatus) -> Step:
    patch = patch_between(wire(claim.status), wire(status))
    return Step(write=Write.CLAIM_STATUS, body={"status": patch}) if patch else NO_STEP


def _is_for(reference: ClaimReference, claim: Claim) -> bool:
    """Return whether the reference names the claim, by name alone as long as it has no uid."""
    metadata = claim.metadata
    if (reference.namespace, reference.name) != (metadata.namespace, metadata.name):
        return False
    return reference.uid in ("", metadata.uid)


def _size(amounts: Mapping[str, str | int | float]) -> int:
    return whole("storage", amounts.get("storage", 0))
