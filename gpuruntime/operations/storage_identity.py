"""Which storage is meant by a name: never another tenant's that has come to it since.

A unit bears the uids of what it was given to mount, and a storage that of what it was given to
copy, as an annotation: these are what was meant, whoever they belong to. Any other storage of the
name, such as one that was made again, is meant as long as it is not another tenant's.
"""

from collections.abc import Mapping

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.storages import GPUStorage
from gpuruntime.models.kubernetes.metadata import KubernetesObject
from gpuruntime.operations.lookup.scopes import tenant_of


def uids_asked(taker: KubernetesObject) -> dict[str, str]:
    """By name, of those that are known by more than that."""
    text = taker.metadata.annotations.get(labels.STORAGE_UIDS, "")
    pairs = (each.partition("=") for each in text.split(","))
    return {name: uid for name, _, uid in pairs if uid}


def uid_marks(uids: Mapping[str, str]) -> dict[str, str]:
    """The annotation that `uids_asked` reads; none where nothing is to be known."""
    text = ",".join(f"{name}={uid}" for name, uid in sorted(uids.items()))
    return {labels.STORAGE_UIDS: text} if text else {}


def mistaken(taker: KubernetesObject, storage: GPUStorage) -> str:
    """Why the storage of that name is not the one that was meant; empty where it is.

    Who has no tenant was made by somebody who may mix them, and so was what has none.
    """
    if uids_asked(taker).get(storage.metadata.name) == storage.metadata.uid:
        return ""
    mine, its = tenant_of(taker), tenant_of(storage)
    return "is another tenant's" if mine and its and mine != its else ""
