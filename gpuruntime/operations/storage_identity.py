"""A storage's name never comes to mean another tenant's storage that was created later.

Units and copies carry an annotation with the uids of the storages that they were given. A storage
with a recorded uid is the one that was meant, whichever tenant it belongs to. Any other storage of
the name, such as a recreated one, is meant unless it belongs to another tenant.
"""

from collections.abc import Mapping

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.storages import GPUStorage
from gpuruntime.models.kubernetes.metadata import KubernetesObject
from gpuruntime.operations.lookup.scopes import tenant_of


def uids_asked(taker: KubernetesObject) -> dict[str, str]:
    """Return the recorded uids by storage name; names without a recorded uid are left out."""
    text = taker.metadata.annotations.get(labels.STORAGE_UIDS, "")
    pairs = (each.partition("=") for each in text.split(","))
    return {name: uid for name, _, uid in pairs if uid}


def uid_marks(uids: Mapping[str, str]) -> dict[str, str]:
    """Return the annotation that `uids_asked` reads, or nothing if there are no uids."""
    text = ",".join(f"{name}={uid}" for name, uid in sorted(uids.items()))
    return {labels.STORAGE_UIDS: text} if text else {}


def mistaken(taker: KubernetesObject, storage: GPUStorage) -> str:
    """Return why the storage is not the one that was meant, or an empty string if it is.

    Only callers who may mix tenants create objects without one, so these match any tenant.
    """
    if uids_asked(taker).get(storage.metadata.name) == storage.metadata.uid:
        return ""
    mine, its = tenant_of(taker), tenant_of(storage)
    return "is another tenant's" if mine and its and mine != its else ""
