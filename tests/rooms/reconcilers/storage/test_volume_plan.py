"""Decisions about the claim of a storage."""

from datetime import UTC, datetime

import attrs
import pytest

from gpuruntime.models.kinds.reasons import StorageReason
from gpuruntime.models.kinds.storages import (
    GPUStorage,
    GPUStorageSpec,
    GPUStorageStatus,
)
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.models.kubernetes.volumes import (
    ClaimResources,
    StorageClass,
    VolumeClaim,
    VolumeClaimSpec,
    VolumeClaimStatus,
)
from gpuruntime.reconcilers.storage.volume_plan import (
    GrowClaim,
    MakeClaim,
    claim_write,
    volume_verdict,
)

GROWING = StorageClass(allowVolumeExpansion=True)
FIXED = StorageClass()
LATE = StorageClass(volumeBindingMode="WaitForFirstConsumer")


def storage(*, size: str = "10Gi", capacity: str = "") -> GPUStorage:
    return GPUStorage(
        metadata=ObjectMeta(name="s", uid="1"),
        spec=GPUStorageSpec(size=size),
        status=GPUStorageStatus(capacity=capacity),
    )


def claim(phase: str = "Bound", *, size: str = "10Gi", capacity: str = "10Gi") -> VolumeClaim:
    return VolumeClaim(
        spec=VolumeClaimSpec(
            storageClassName="fast", resources=ClaimResources(requests={"storage": size})
        ),
        status=VolumeClaimStatus(phase=phase, capacity={"storage": capacity} if capacity else {}),
    )


def test_a_claim_is_created_once() -> None:
    assert claim_write(storage(), None, None) == MakeClaim()
    assert claim_write(storage(), claim(), FIXED) is None


def test_a_claim_that_had_a_volume_is_never_created_again() -> None:
    """An empty volume under the name of a full one would hide the loss."""
    lost = storage(capacity="10Gi")
    assert claim_write(lost, None, None) is None
    verdict = volume_verdict(lost, None, None)
    assert (verdict.is_true, verdict.reason) == (False, StorageReason.VOLUME_LOST)


def test_a_claim_grows_if_its_class_allows_it() -> None:
    larger = storage(size="20Gi")
    assert claim_write(larger, claim(), GROWING) == GrowClaim(claim())
    assert claim_write(larger, claim(), FIXED) is None
    assert claim_write(larger, claim("Pending"), GROWING) is None
    assert claim_write(larger, claim(size="20480Mi"), GROWING) is None


def test_a_class_that_cannot_grow_is_reported_and_the_volume_stays_usable() -> None:
    verdict = volume_verdict(storage(size="20Gi"), claim(), FIXED)
    assert (verdict.is_true, verdict.reason) == (True, StorageReason.EXPANSION_REFUSED)
    assert "stays at 10Gi" in verdict.message


@pytest.mark.parametrize(
    ("found", "of", "is_true", "reason"),
    [
        (claim(), FIXED, True, StorageReason.VOLUME_READY),
        (claim("Pending", capacity=""), FIXED, False, StorageReason.VOLUME_PENDING),
        (claim("", capacity=""), FIXED, False, StorageReason.VOLUME_PENDING),
        (claim("Pending", capacity=""), LATE, True, StorageReason.VOLUME_READY),
        (claim("Lost"), FIXED, False, StorageReason.VOLUME_LOST),
        (None, None, False, StorageReason.VOLUME_PENDING),
    ],
    ids=["bound", "pending", "no phase", "pending until the first Pod", "lost", "no claim"],
)
def test_the_volumes_verdict_follows_from_its_claim(
    found: VolumeClaim | None, of: StorageClass | None, is_true: bool, reason: StorageReason
) -> None:
    verdict = volume_verdict(storage(), found, of)
    assert (verdict.is_true, verdict.reason) == (is_true, reason)


@pytest.mark.parametrize(
    ("phase", "reason"),
    [
        ("Bound", StorageReason.VOLUME_ENDING),
        ("Lost", StorageReason.VOLUME_LOST),
        ("Pending", StorageReason.VOLUME_PENDING),
    ],
)
def test_a_terminating_claim_is_not_ready_and_does_not_grow(
    phase: str, reason: StorageReason
) -> None:
    found = claim(phase)
    metadata = ObjectMeta(deletionTimestamp=datetime(2026, 3, 1, tzinfo=UTC))
    going = attrs.evolve(found, metadata=metadata)
    verdict = volume_verdict(storage(), going, FIXED)
    assert (verdict.is_true, verdict.reason) == (False, reason)
    assert claim_write(storage(size="20Gi"), going, GROWING) is None


def test_growth_that_the_cluster_refuses_leaves_the_volume_usable() -> None:
    verdict = volume_verdict(storage(size="20Gi"), claim(), GROWING, refusal="exceeded quota")
    assert (verdict.is_true, verdict.reason) == (True, StorageReason.EXPANSION_REFUSED)
    assert verdict.message == "claim s stays at 10Gi: exceeded quota"


@pytest.mark.parametrize(
    ("type_", "message", "reason", "told"),
    [
        (
            "FileSystemResizePending",
            "wants a Pod",
            StorageReason.VOLUME_READY,
            "claim s holds 10Gi and grows to 20Gi: FileSystemResizePending: wants a Pod",
        ),
        (
            "Resizing",
            "",
            StorageReason.VOLUME_READY,
            "claim s holds 10Gi and grows to 20Gi: Resizing",
        ),
        (
            "ControllerResizeError",
            "disk quota of the project",
            StorageReason.EXPANSION_REFUSED,
            "claim s stays at 10Gi: ControllerResizeError: disk quota of the project",
        ),
        (
            "NodeResizeError",
            "file system is in use",
            StorageReason.EXPANSION_REFUSED,
            "claim s stays at 10Gi: NodeResizeError: file system is in use",
        ),
    ],
)
def test_growth_is_reported_with_the_drivers_message(
    type_: str, message: str, reason: StorageReason, told: str
) -> None:
    words = (Condition(type=type_, status="True", message=message),)
    of = claim()
    growing = attrs.evolve(of, status=attrs.evolve(of.status, conditions=words))
    verdict = volume_verdict(storage(size="20Gi"), growing, GROWING)
    assert (verdict.is_true, verdict.reason, verdict.message) == (True, reason, told)
    assert "10Gi" in volume_verdict(storage(), growing, GROWING).message
    over = attrs.evolve(words[0], status="False")
    quiet = attrs.evolve(of, status=attrs.evolve(of.status, conditions=(over,)))
    verdict = volume_verdict(storage(size="20Gi"), quiet, GROWING)
    assert verdict.message == "claim s holds 10Gi and grows to 20Gi"


def test_a_missing_class_is_named() -> None:
    verdict = volume_verdict(storage(), claim("Pending", capacity=""), None)
    assert verdict.reason is StorageReason.VOLUME_PENDING
    assert "there is no class fast" in verdict.message
