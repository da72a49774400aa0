"""Defaults and checks of claims, volumes and storage classes."""

from collections.abc import Iterator
from typing import Final

from gpuruntime.embedded.apiserver.documents import Document
from gpuruntime.embedded.schemas.faults import (
    Fault,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from gpuruntime.models.kubernetes.quantities import parse_quantity

ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
MODES: Final = ("Block", "Filesystem")
BINDINGS: Final = ("Immediate", "WaitForFirstConsumer")
POSITIVE: Final = "must be greater than zero"
CLAIM_IS_FIXED: Final = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for "
    "bound claims"
)
SHRUNK: Final = "field can not be less than status.capacity"
STORAGE: Final = "spec.resources[storage]"

APART_FROM_SOURCE: Final = frozenset(
    {
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    }
)

CLAIM_FINALIZER: Final = "kubernetes.io/pvc-protection"
VOLUME_FINALIZER: Final = "kubernetes.io/pv-protection"


def fill_claim(document: Document, old: Document | None) -> None:
    document["spec"].setdefault("volumeMode", "Filesystem")
    if old is None:
        document["status"] = {"phase": "Pending"}
        _protect(document, CLAIM_FINALIZER)


def judge_claim(document: Document, old: Document | None) -> Iterator[Fault]:
    spec = document["spec"]
    modes = spec.get("accessModes", [])
    if not modes:
        yield required("spec.accessModes", "at least 1 access mode is required")
    for mode in modes:
        if mode not in ACCESS_MODES:
            yield not_supported("spec.accessModes", mode, list(ACCESS_MODES))
    if spec["volumeMode"] not in MODES:
        yield not_supported("spec.volumeMode", spec["volumeMode"], list(MODES))
    size = spec["resources"].get("requests", {}).get("storage")
    if size is None:
        yield required(STORAGE)
    elif parse_quantity(size).nanos <= 0:
        yield invalid_value(STORAGE, size, POSITIVE)
    elif old is not None:
        yield from _changed_claim_faults(document, old)


def _changed_claim_faults(document: Document, old: Document) -> Iterator[Fault]:
    """Return the faults of a changed claim.

    Only a bound claim may change its size, which must not fall below the smaller of its old size
    and its capacity. Class and volume name may be set if they are absent.
    """
    spec, before = document["spec"], old["spec"]
    is_bound = old.get("status", {}).get("phase") == "Bound"
    fixed, was_fixed = dict(spec), dict(before)
    if is_bound:
        fixed["resources"] = was_fixed["resources"]
    for name in ("storageClassName", "volumeName"):
        if name not in before:
            fixed.pop(name, None)
    if fixed != was_fixed:
        yield forbidden_field("spec", CLAIM_IS_FIXED)
    capacity = old.get("status", {}).get("capacity", {}).get("storage", "0")
    size = spec["resources"]["requests"]["storage"]
    was = before["resources"]["requests"]["storage"]
    if parse_quantity(size) < min(parse_quantity(was), parse_quantity(capacity)):
        yield forbidden_field("spec.resources.requests.storage", SHRUNK)


def fill_volume(document: Document, old: Document | None) -> None:
    spec = document["spec"]
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    if "hostPath" in spec:
        spec["hostPath"].setdefault("type", "")
    if old is None:
        made_at = document["metadata"]["creationTimestamp"]
        document["status"] = {"phase": "Pending", "lastPhaseTransitionTime": made_at}
        _protect(document, VOLUME_FINALIZER)


def judge_volume(document: Document, old: Document | None) -> Iterator[Fault]:
    spec = document["spec"]
    if not spec.get("accessModes"):
        yield required("spec.accessModes")
    if not spec.get("capacity"):
        yield required("spec.capacity")
    if set(spec.get("capacity", ())) != {"storage"}:
        yield not_supported("spec.capacity", spec.get("capacity"), ["storage"])
    if not spec.keys() - APART_FROM_SOURCE:
        yield required("spec", "must specify a volume type")


def fill_storage_class(document: Document, old: Document | None) -> None:
    document.setdefault("reclaimPolicy", "Delete")
    document.setdefault("volumeBindingMode", "Immediate")


def judge_storage_class(document: Document, old: Document | None) -> Iterator[Fault]:
    if not document["provisioner"]:
        yield required("provisioner")
    if document["volumeBindingMode"] not in BINDINGS:
        mode = document["volumeBindingMode"]
        yield not_supported("volumeBindingMode", mode, list(BINDINGS))
    names = ("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode")
    for name in names if old is not None else ():
        if old is not None and document.get(name) != old.get(name):
            yield forbidden_field(name, f"updates to {name} are forbidden.")


def _protect(document: Document, finalizer: str) -> None:
    """Add the finalizer; the volume controllers remove it when the object is no longer in use."""
    finalizers = document["metadata"].setdefault("finalizers", [])
    if finalizer not in finalizers:
        finalizers.append(finalizer)
