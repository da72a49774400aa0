"""With which rights what fills a storage works."""

from typing import Any

import pytest

from gpuruntime.models.metadata import ObjectMeta
from gpuruntime.models.storages import GPUStorage, GPUStorageSpec, Prepare
from gpuruntime.reconcilers.options import UnitOptions
from gpuruntime.reconcilers.storage_children import prepare_job

STORAGE = GPUStorage(metadata=ObjectMeta(name="models", uid="1"), spec=GPUStorageSpec(size="1Gi"))
COPY = Prepare(fromStorageName="source")
FILL = Prepare(fromImage="filler:1", args=("fill",))
NOTHING = {"drop": ["ALL"]}


def container(prepare: Prepare, *, is_restricted: bool) -> dict[str, Any]:
    job: Any = prepare_job(STORAGE, prepare, UnitOptions(is_restricted=is_restricted), "")
    (found,) = job["spec"]["template"]["spec"]["containers"]
    return dict(found)


def test_a_copy_reads_what_any_user_left_and_leaves_it_to_the_same() -> None:
    found = container(COPY, is_restricted=False)
    assert found["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"], "add": ["CHOWN", "DAC_OVERRIDE", "FOWNER"]},
        "runAsUser": 0,
    }
    assert 'cp -af -- "./$each"' in found["command"][2]


def test_a_copy_at_the_restricted_level_is_made_by_the_one_user_there_is() -> None:
    found = container(COPY, is_restricted=True)
    assert found["securityContext"]["capabilities"] == NOTHING
    assert "runAsUser" not in found["securityContext"]
    assert 'cp -Rf -- "./$each"' in found["command"][2]


@pytest.mark.parametrize("is_restricted", [True, False])
def test_an_image_that_fills_a_storage_has_no_rights_of_roots(is_restricted: bool) -> None:
    found = container(FILL, is_restricted=is_restricted)
    assert found["securityContext"]["capabilities"] == NOTHING
