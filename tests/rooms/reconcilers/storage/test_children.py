"""Ownership of a storage's children, and the rights of the containers that fill it."""

from typing import Any

import pytest

from gpuruntime.models.kinds.reasons import StorageReason
from gpuruntime.models.kinds.storages import GPU_STORAGES, GPUStorage, GPUStorageSpec, Prepare
from gpuruntime.models.kubernetes.metadata import ObjectMeta, OwnerReference
from gpuruntime.models.kubernetes.volumes import VOLUME_CLAIMS, VolumeClaim
from gpuruntime.reconcilers.options import UnitOptions
from gpuruntime.reconcilers.storage.children import foreign_child, prepare_job
from gpuruntime.reconcilers.storage.verdict import StorageVerdict
from tests.options import configured

STORAGE = GPUStorage(metadata=ObjectMeta(name="models", uid="1"), spec=GPUStorageSpec(size="1Gi"))
COPY = Prepare(fromStorageName="source")
FILL = Prepare(fromImage="filler:1", args=("fill",))
NOTHING = {"drop": ["ALL"]}


def container(prepare: Prepare, *, is_restricted: bool) -> dict[str, Any]:
    job: Any = prepare_job(
        STORAGE, prepare, configured(UnitOptions, is_restricted=is_restricted), ""
    )
    (found,) = job["spec"]["template"]["spec"]["containers"]
    return dict(found)


def verdict_on(*owners: OwnerReference) -> StorageVerdict | None:
    """Return the verdict on a claim with these owners."""
    claim = VolumeClaim(metadata=ObjectMeta(name="models", ownerReferences=owners))
    return foreign_child(
        VOLUME_CLAIMS,
        claim,
        STORAGE,
        refused=StorageReason.VOLUME_SYNC_FAILED,
        waits=StorageReason.VOLUME_PENDING,
    )


def owner(uid: str, kind: str = GPU_STORAGES.kind) -> OwnerReference:
    return OwnerReference(kind=kind, name="models", uid=uid, controller=True)


def test_a_child_of_an_earlier_storage_of_the_name_is_not_reused() -> None:
    assert verdict_on(owner("1")) is None
    verdict = verdict_on(owner("0"))
    assert verdict is not None
    assert verdict.reason is StorageReason.VOLUME_PENDING
    assert "of the storage that had this name" in verdict.message


@pytest.mark.parametrize("owners", [(), (owner("0", kind="GPUUnit"),)], ids=["no owner", "unit"])
def test_a_child_of_another_owner_is_refused(owners: tuple[OwnerReference, ...]) -> None:
    verdict = verdict_on(*owners)
    assert verdict is not None
    assert verdict.reason is StorageReason.VOLUME_SYNC_FAILED
    assert "it is left as it is" in verdict.message


def test_a_copy_reads_the_files_of_any_user_and_keeps_their_owners() -> None:
    found = container(COPY, is_restricted=False)
    assert found["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"], "add": ["CHOWN", "DAC_OVERRIDE", "FOWNER"]},
        "runAsUser": 0,
    }
    assert 'cp -af -- "./$each"' in found["command"][2]


def test_a_copy_at_the_restricted_level_runs_as_the_only_user() -> None:
    found = container(COPY, is_restricted=True)
    assert found["securityContext"]["capabilities"] == NOTHING
    assert "runAsUser" not in found["securityContext"]
    assert 'cp -Rf -- "./$each"' in found["command"][2]


@pytest.mark.parametrize("is_restricted", [True, False])
def test_an_image_that_fills_a_storage_has_no_rights_of_root(is_restricted: bool) -> None:
    found = container(FILL, is_restricted=is_restricted)
    assert found["securityContext"]["capabilities"] == NOTHING
