"""Decisions about claims and volumes, step by step."""

from typing import Any

import pytest

from gpuruntime.embedded.apiserver.patches import merge_patch
from gpuruntime.embedded.controllers.object_patches import wire
from gpuruntime.embedded.controllers.volume_claim_plan import (
    DEFAULT_CLASS,
    SELECTED_NODE,
    ClaimView,
    next_for_claim,
)
from gpuruntime.embedded.controllers.volume_plan import (
    CLAIM_PROTECTION,
    VOLUME_PROTECTION,
    Step,
    Write,
    next_for_volume,
)
from gpuruntime.embedded.kinds.cluster_objects import Claim, PersistentVolume, StorageClass
from gpuruntime.models.encoding import codec
from tests.rooms.embedded.builders import claim, storage_class, volume

FAST = storage_class("fast", allowVolumeExpansion=True)
LAZY = storage_class("lazy", volumeBindingMode="WaitForFirstConsumer")


class World:
    """A claim and some volumes; `settle` carries out every step and asks for the next one."""

    def __init__(
        self,
        wanted: Claim,
        *volumes: PersistentVolume,
        classes: tuple[StorageClass, ...] = (FAST, LAZY),
        is_used: bool = False,
    ) -> None:
        self.claim = wanted
        self.volumes = {each.metadata.name: each for each in volumes}
        self.classes = {each.metadata.name: each for each in classes}
        self.is_used = is_used
        self.steps: list[Step] = []

    def next(self) -> Step:
        volumes = tuple(self.volumes.values())
        view = ClaimView(
            claim=self.claim, volumes=volumes, classes=self.classes, is_used=self.is_used
        )
        return next_for_claim(view, volumes_root="/volumes")

    def settle(self) -> "World":
        for _ in range(20):
            step = self.next()
            self.steps.append(step)
            if step.write is Write.NOTHING:
                return self
            self._carry_out(step)
        raise AssertionError(f"still at work: {self.steps[-1]}")

    def _carry_out(self, step: Step) -> None:
        match step.write:
            case Write.CLAIM | Write.CLAIM_STATUS:
                self.claim = _patched(self.claim, step.body, Claim)
            case Write.NEW_VOLUME:
                made = codec.decode(codec.encode(step.body), PersistentVolume)
                self.volumes[made.metadata.name] = made
            case _:
                old = self.volumes[step.volume]
                self.volumes[step.volume] = _patched(old, step.body, PersistentVolume)


def _patched(value: Any, patch: Any, model: Any) -> Any:
    return codec.decode(codec.encode(merge_patch(wire(value), patch)), model)


def test_a_claim_of_an_immediate_class_gets_a_new_volume() -> None:
    world = World(claim(storageClassName="fast")).settle()
    (made,) = world.volumes.values()
    assert made.metadata.name == "pvc-uid-data"
    assert made.spec.claimRef is not None
    assert made.spec.claimRef.uid == "uid-data"
    assert made.spec.persistentVolumeReclaimPolicy == "Delete"
    assert made.metadata.finalizers == (VOLUME_PROTECTION,)
    assert world.claim.spec.volumeName == made.metadata.name
    assert wire(world.claim.status) == {
        "phase": "Bound",
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
    }
    assert world.claim.metadata.annotations == {
        "pv.kubernetes.io/bind-completed": "yes",
        "pv.kubernetes.io/bound-by-controller": "yes",
        "volume.beta.kubernetes.io/storage-provisioner": "kubernetes.io/host-path",
        "volume.kubernetes.io/storage-provisioner": "kubernetes.io/host-path",
    }


def test_a_claim_that_waits_for_its_consumer_is_bound_once_a_node_is_chosen() -> None:
    world = World(claim(storageClassName="lazy")).settle()
    assert world.claim.status.phase == "Pending"
    note = world.steps[-1].note
    assert note is not None
    assert (note.reason, note.message) == (
        "WaitForFirstConsumer",
        "waiting for first consumer to be created before binding",
    )
    chosen = claim(storageClassName="lazy", metadata={"annotations": {SELECTED_NODE: "n"}})
    assert World(chosen).settle().claim.status.phase == "Bound"


def test_the_static_volume_that_fits_best_is_chosen() -> None:
    candidates = [
        volume("small", size="512Mi"),
        volume("big", size="8Gi"),
        volume("fitting", size="2Gi"),
        volume("other", size="1Gi", storageClassName="fast"),
        volume("shared", size="1Gi", accessModes=["ReadOnlyMany"]),
        volume("taken", size="1Gi", claimRef={"name": "x", "namespace": "default", "uid": "y"}),
    ]
    world = World(claim(storageClassName=""), *candidates).settle()
    assert world.claim.spec.volumeName == "fitting"
    assert world.claim.status.capacity == {"storage": "2Gi"}


def test_a_free_volume_of_the_class_is_preferred_to_a_new_one() -> None:
    world = World(claim(storageClassName="fast"), volume("disk", storageClassName="fast")).settle()
    assert world.volumes.keys() == {"disk"}
    assert world.claim.spec.volumeName == "disk"


def test_a_volume_that_names_the_claim_is_preferred_to_any_other() -> None:
    kept = volume("kept", size="8Gi", claimRef={"name": "data", "namespace": "default"})
    world = World(claim(storageClassName=""), volume("free"), kept).settle()
    assert world.claim.spec.volumeName == "kept"
    assert world.claim.status.phase == "Bound"


@pytest.mark.parametrize(
    ("class_name", "reason"),
    [("", "FailedBinding"), (None, "FailedBinding"), ("absent", "ProvisioningFailed"),
     ("foreign", "ExternalProvisioning")],
)  # fmt: skip
def test_a_claim_that_cannot_be_bound_gets_an_event_with_the_reason(
    class_name: str | None, reason: str
) -> None:
    foreign = storage_class("foreign", provisioner="example.com/disks")
    world = World(claim(storageClassName=class_name), classes=(foreign,)).settle()
    note = world.steps[-1].note
    assert note is not None
    assert (world.claim.status.phase, note.reason) == ("Pending", reason)


def test_a_claim_without_a_class_gets_the_default_one() -> None:
    default = storage_class("standard", metadata={"annotations": {DEFAULT_CLASS: "true"}})
    world = World(claim(), classes=(FAST, default)).settle()
    assert (world.claim.spec.storageClassName, world.claim.status.phase) == ("standard", "Bound")


def test_a_bound_claim_grows_if_its_class_allows_it() -> None:
    world = World(claim(storageClassName="fast")).settle()
    grown = {"spec": {"resources": {"requests": {"storage": "3Gi"}}}}
    world.claim = _patched(world.claim, grown, Claim)
    assert world.settle().claim.status.capacity == {"storage": "3Gi"}

    fixed = World(claim(storageClassName="lazy", metadata={"annotations": {SELECTED_NODE: "n"}}))
    fixed.settle().claim = _patched(fixed.claim, grown, Claim)
    assert fixed.settle().claim.status.capacity == {"storage": "1Gi"}


def test_a_claim_whose_volume_vanished_is_lost() -> None:
    world = World(claim(storageClassName="fast")).settle()
    world.volumes.clear()
    assert world.settle().claim.status.phase == "Lost"
    assert any(step.note and step.note.reason == "ClaimLost" for step in world.steps)


def test_a_claim_in_use_keeps_its_finalizer() -> None:
    metadata = {
        "deletionTimestamp": "2025-01-01T00:00:00Z",
        "finalizers": [CLAIM_PROTECTION, "example.com/other"],
    }
    assert World(claim(metadata=metadata), is_used=True).next().write is Write.NOTHING
    released = World(claim(metadata=metadata)).next()
    assert released.write is Write.CLAIM
    assert released.body == {"metadata": {"finalizers": ["example.com/other"]}}


def test_a_volume_is_bound_while_its_claim_exists_and_released_afterwards() -> None:
    world = World(claim(storageClassName="fast")).settle()
    (bound,) = world.volumes.values()
    assert next_for_volume(bound, world.claim).body == {"status": {"phase": "Bound"}}
    assert next_for_volume(bound, None).body == {"status": {"phase": "Released"}}
    stranger = claim(metadata={"uid": "another"})
    assert next_for_volume(bound, stranger).body == {"status": {"phase": "Released"}}


def test_a_released_volume_follows_its_reclaim_policy() -> None:
    reference = {"name": "data", "namespace": "default", "uid": "gone"}
    temporary = volume(
        "v", phase="Released", claimRef=reference, persistentVolumeReclaimPolicy="Delete"
    )
    kept = volume("v", phase="Released", claimRef=reference)
    assert next_for_volume(temporary, None).write is Write.NO_VOLUME
    assert next_for_volume(kept, None).write is Write.NOTHING


def test_a_deleted_volume_stays_until_its_claim_is_gone() -> None:
    metadata = {
        "deletionTimestamp": "2025-01-01T00:00:00Z",
        "finalizers": [VOLUME_PROTECTION],
    }
    reference = {"name": "data", "namespace": "default", "uid": "uid-data"}
    ending = volume("v", metadata=metadata, claimRef=reference)
    assert next_for_volume(ending, claim()).write is Write.NOTHING
    assert next_for_volume(ending, None).body == {"metadata": {"finalizers": []}}


def test_a_free_volume_is_available() -> None:
    assert next_for_volume(volume("v", phase=""), None).body == {"status": {"phase": "Available"}}
    assert next_for_volume(volume("v"), None).write is Write.NOTHING
