"""Metadata: how it is read, and the checks that hold for every kind."""

from typing import Any, Final

import msgspec

from gpuruntime.embedded.apiserver.documents import Document, without_nulls
from gpuruntime.embedded.objects.registry import Kind
from gpuruntime.embedded.schemas.faults import (
    Fault,
    forbidden_field,
    invalid_value,
    required,
    too_long,
)
from gpuruntime.embedded.schemas.member_types import check_shape
from gpuruntime.embedded.schemas.names import label_value_faults, qualified_faults

LONGEST_ANNOTATIONS: Final = 256 * 1024
STANDARD_FINALIZERS: Final = (
    "orphan",
    "foregroundDeletion",
    "kubernetes",
    "customresourcecleanup.apiextensions.k8s.io",
)

# Not kept: managedFields belong to server-side apply, and selfLink is obsolete.
UNKEPT: Final = ("managedFields", "selfLink")


class _Owner(msgspec.Struct):
    apiVersion: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    blockOwnerDeletion: bool = False


class _Metadata(msgspec.Struct):
    """Types of the metadata's members; the metadata itself stays a plain document."""

    name: str = ""
    generateName: str = ""
    namespace: str = ""
    selfLink: str = ""
    uid: str = ""
    resourceVersion: str = ""
    generation: int = 0
    creationTimestamp: str = ""
    deletionTimestamp: str = ""
    deletionGracePeriodSeconds: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    ownerReferences: list[_Owner] = []
    finalizers: list[str] = []
    managedFields: list[Any] = []


_MEMBERS: Final = frozenset(_Metadata.__struct_fields__)
_OWNER_MEMBERS: Final = frozenset(_Owner.__struct_fields__)


def read_metadata(kind: Kind, document: Document) -> list[str]:
    """Check the types of the metadata and drop unknown members; return the paths of those."""
    metadata = without_nulls(document.get("metadata"))
    if metadata is None:
        metadata = {}
    # Go decodes a custom object's metadata separately, and a built-in object's as a member.
    check_shape(metadata, _Metadata, "ObjectMeta", "" if kind.is_custom else "metadata")
    unknown = [f"metadata.{name}" for name in metadata if name not in _MEMBERS]
    for index, owner in enumerate(metadata.get("ownerReferences", ())):
        names = [name for name in owner if name not in _OWNER_MEMBERS]
        unknown += [f"metadata.ownerReferences[{index}].{name}" for name in names]
        for name in names:
            del owner[name]
    document["metadata"] = {
        name: value
        for name, value in metadata.items()
        if name in _MEMBERS and name not in UNKEPT and value not in ("", 0, {}, [])
    }
    return unknown


def metadata_faults(kind: Kind, metadata: Document) -> list[Fault]:
    faults = _name_faults(kind, metadata)
    for key, value in metadata.get("labels", {}).items():
        faults += [invalid_value("metadata.labels", key, why) for why in qualified_faults(key)]
        faults += [
            invalid_value("metadata.labels", value, why) for why in label_value_faults(value)
        ]
    faults += _annotation_faults(metadata.get("annotations", {}))
    faults += _owner_faults(metadata.get("ownerReferences", []))
    return faults + _finalizer_faults(kind, metadata.get("finalizers", []))


def changed_metadata_faults(metadata: Document, old: Document) -> list[Fault]:
    """Return the faults of a change to metadata that must stay the same."""
    faults = [
        invalid_value(f"metadata.{name}", metadata.get(name), "field is immutable")
        for name in ("uid", "deletionTimestamp", "deletionGracePeriodSeconds")
        if metadata.get(name) != old.get(name)
    ]
    added = [
        each for each in metadata.get("finalizers", []) if each not in old.get("finalizers", [])
    ]
    if added and "deletionTimestamp" in old:
        listed = ", ".join(f'"{each}"' for each in added)
        why = "no new finalizers can be added if the object is being deleted, found new finalizers"
        faults.append(forbidden_field("metadata.finalizers", f"{why} []string{{{listed}}}"))
    return faults


def _name_faults(kind: Kind, metadata: Document) -> list[Fault]:
    if "name" not in metadata:
        return [required("metadata.name", "name or generateName is required")]
    name = metadata["name"]
    return [invalid_value("metadata.name", name, why) for why in kind.name_faults(name)]


def _annotation_faults(annotations: dict[str, str]) -> list[Fault]:
    faults = [
        invalid_value("metadata.annotations", key, why)
        for key in annotations
        for why in qualified_faults(key.lower())
    ]
    if (
        sum(len(key) + len(value.encode()) for key, value in annotations.items())
        > LONGEST_ANNOTATIONS
    ):
        faults.append(too_long("metadata.annotations", LONGEST_ANNOTATIONS))
    return faults


def _owner_faults(owners: list[Document]) -> list[Fault]:
    faults = []
    field = "metadata.ownerReferences"
    for owner in owners:
        if not owner.get("apiVersion"):
            faults.append(invalid_value(f"{field}.apiVersion", "", "version must not be empty"))
        faults += [
            invalid_value(f"{field}.{name}", "", "must not be empty")
            for name in ("kind", "name", "uid")
            if not owner.get(name)
        ]
    controllers = [owner.get("name") for owner in owners if owner.get("controller")]
    if len(controllers) > 1:
        why = 'Only one reference can have Controller set to true. Found "true" in references for'
        detail = f"{why} {controllers[0]} and {controllers[1]}"
        faults.append(invalid_value(field, owners, detail))
    return faults


def _finalizer_faults(kind: Kind, finalizers: list[str]) -> list[Fault]:
    """Return the finalizers' faults; only built-in kinds need a qualified name."""
    field = "metadata.finalizers"
    faults = []
    for index, finalizer in enumerate(finalizers):
        malformed = qualified_faults(finalizer)
        faults += [invalid_value(field, finalizer, why) for why in malformed]
        is_known = "/" in finalizer or finalizer in STANDARD_FINALIZERS or kind.is_custom
        if not malformed and not is_known:
            why = "name is neither a standard finalizer name nor is it fully qualified"
            faults.append(invalid_value(f"{field}[{index}]", finalizer, why))
    return faults
