"""Create, update and patch: the rules for objects of every kind.

Each call is one synchronous step over the store, so nothing comes between its check and its write.
Time and randomness are injected: the same calls produce the same objects.
"""

import random
import uuid
from collections.abc import Callable
from datetime import datetime
from typing import Final

import attrs

from gpuruntime.embedded.apiserver.documents import Document, copy, is_same
from gpuruntime.embedded.apiserver.status_errors import (
    already_exists,
    bad_request,
    conflict,
    internal_error,
    invalid,
    method_not_allowed,
    not_found,
    unguarded,
)
from gpuruntime.embedded.objects.admission import Admission, CreationPolicy
from gpuruntime.embedded.objects.deletion import Deletions
from gpuruntime.embedded.objects.metadata import changed_metadata_faults, metadata_faults
from gpuruntime.embedded.objects.namespaces import NAMESPACES, require_namespace
from gpuruntime.embedded.objects.registry import Kind, Target
from gpuruntime.embedded.objects.store import Store, stored_from
from gpuruntime.embedded.objects.versions import Stored
from gpuruntime.models.kubernetes.timestamps import rfc3339

# Kubernetes generates name suffixes without vowels and look-alike characters.
SUFFIX_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX_LENGTH: Final = 5
LONGEST_GENERATED: Final = 63
APART_FROM_SPEC: Final = frozenset({"kind", "apiVersion", "metadata", "status"})


@attrs.frozen(kw_only=True, slots=True)
class Written:
    """The result of a write; a dry run stores nothing and shows the object that it would store."""

    stored: Stored
    is_new: bool = False


class Writes:
    """Writes of documents whose metadata `read_metadata` has already put in order."""

    def __init__(
        self,
        store: Store,
        deletions: Deletions,
        now: Callable[[], datetime],
        rng: random.Random,
        *,
        policies: tuple[CreationPolicy, ...] = (),
    ) -> None:
        self._store = store
        self._deletions = deletions
        self._admission = Admission(store, policies)
        self._now = now
        self._rng = rng

    def create(self, target: Target, document: Document, *, is_dry_run: bool = False) -> Written:
        kind = target.kind
        if kind.is_terminating:
            raise method_not_allowed(
                "create not allowed while custom resource definition is terminating"
            )
        document |= {"kind": kind.kind, "apiVersion": kind.stored_api_version}
        metadata = document["metadata"]
        _check_namespace(target, metadata)
        require_namespace(self._store, target)
        if "resourceVersion" in metadata:
            raise internal_error("resourceVersion should not be set on objects to be created")
        self._set_server_fields(target, document)
        kind.rules.fill(document, None)
        target = Target(kind=kind, namespace=target.namespace, name=metadata.get("name", ""))
        self._admission.admit(target, document)
        faults = metadata_faults(kind, metadata)
        if target.name:  # a kind's rules may require the name
            faults += kind.rules.faults(document, None)
        if faults:
            raise invalid(kind, target.name, faults)
        self._admission.admit_by_policy(target)
        if self._store.collection(kind).get(target.path) is not None:
            raise already_exists(kind, target.name)
        if is_dry_run:
            return Written(stored=stored_from(kind, target.path, document, 0), is_new=True)
        return Written(stored=self._store.write(kind, target.path, document), is_new=True)

    def replace(self, target: Target, document: Document, *, is_dry_run: bool = False) -> Written:
        """Replace an object; a different uid in the document is a failed precondition."""
        stored = self._store.collection(target.kind).get(target.path)
        _check_name(target, document["metadata"])
        if stored is None:
            if target.kind.creates_on_update and not target.subresource:
                document["metadata"].pop("resourceVersion", None)
                return self.create(target, document, is_dry_run=is_dry_run)
            raise not_found(target.kind, target.name)
        old = stored.document()
        asked, uid = document["metadata"].get("uid"), old["metadata"]["uid"]
        if asked and asked != uid:
            why = f"Precondition failed: UID in precondition: {asked}, UID in object meta: {uid}"
            raise conflict(target.kind, target.name, why)
        return self._update(target, stored, old, document, is_dry_run)

    def patch(
        self,
        target: Target,
        amend: Callable[[Document], Document],
        *,
        is_dry_run: bool = False,
    ) -> Written:
        """Apply `amend` to a copy; if the patch names no version, the write is unconditional."""
        stored = self._store.collection(target.kind).get(target.path)
        if stored is None:
            raise not_found(target.kind, target.name)
        shown = {**stored.document(), "apiVersion": target.kind.api_version}
        document = amend(shown)
        _check_name(target, document["metadata"])
        document["metadata"].setdefault("resourceVersion", str(stored.version))
        return self._update(target, stored, stored.document(), document, is_dry_run)

    def _set_server_fields(self, target: Target, document: Document) -> None:
        """Set what only the server may set in a new object."""
        kind, metadata = target.kind, document["metadata"]
        if kind.is_namespaced:
            metadata["namespace"] = target.namespace
        if "name" not in metadata and "generateName" in metadata:
            metadata["name"] = self._generated(metadata["generateName"])
        metadata["uid"] = str(uuid.UUID(int=self._rng.getrandbits(128), version=4))
        metadata["creationTimestamp"] = rfc3339(self._now())
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds"):
            metadata.pop(name, None)
        if kind.has_generation:
            metadata["generation"] = 1
        if kind.has_status and not kind.keeps_first_status:
            document.pop("status", None)

    def _generated(self, prefix: str) -> str:
        suffix = "".join(self._rng.choice(SUFFIX_ALPHABET) for _ in range(SUFFIX_LENGTH))
        return prefix[: LONGEST_GENERATED - SUFFIX_LENGTH] + suffix

    def _update(
        self, target: Target, stored: Stored, old: Document, document: Document, is_dry_run: bool
    ) -> Written:
        kind = target.kind
        _check_namespace(target, document["metadata"])
        _check_version(target, stored, document["metadata"])
        document = _merged(target, document, old)
        kind.rules.fill(document, old)
        _raise_generation(target, document, old)
        metadata, before = document["metadata"], old["metadata"]
        faults = changed_metadata_faults(metadata, before) + metadata_faults(kind, metadata)
        faults += kind.rules.faults(document, old)
        if faults:
            raise invalid(kind, target.name, faults)
        self._admission.admit_change(target, document, old)
        if is_same(document, old):
            return Written(stored=stored)
        if _is_released(kind, document):
            if not is_dry_run:
                self._deletions.remove(target)
            return Written(stored=stored_from(kind, target.path, document, stored.version))
        if is_dry_run:
            return Written(stored=stored_from(kind, target.path, document, stored.version))
        return Written(stored=self._store.write(kind, target.path, document))


def _check_name(target: Target, metadata: Document) -> None:
    name = metadata.get("name", "")
    if not name:
        subject = f"the name of the object ({target.name} based on URL)"
        raise bad_request(f"{subject} was undeterminable: name must be provided")
    if name != target.name:
        message = f"the name of the object ({name}) does not match the name on the URL"
        raise bad_request(f"{message} ({target.name})")


def _check_namespace(target: Target, metadata: Document) -> None:
    """Check that the namespaces agree; an absent one is the request's."""
    if metadata.setdefault("namespace", target.namespace) != target.namespace:
        message = "the namespace of the provided object does not match the namespace sent on the"
        raise bad_request(f"{message} request")
    if not target.namespace:
        del metadata["namespace"]


def _check_version(target: Target, stored: Stored, metadata: Document) -> None:
    """Check the version; absent or zero means unconditional, which not every kind allows."""
    text = metadata.get("resourceVersion", "0")
    if not text.isdecimal():
        raise internal_error(f'strconv.ParseUint: parsing "{text}": invalid syntax')
    version = int(text)
    if not version and not target.kind.allows_unconditional_update:
        raise unguarded(target.kind, target.name)
    if version and version != stored.version:
        raise conflict(target.kind, target.name)


def _merged(target: Target, document: Document, old: Document) -> Document:
    """Return the document with the old status, or in a status write the old spec."""
    _keep_server_fields(document["metadata"], old["metadata"])
    if target.subresource == "status":
        return _with_status(target.kind, document, old)
    if target.kind.has_status:
        document.pop("status", None)
        if "status" in old:
            document["status"] = copy(old["status"])
    return {**document, "kind": target.kind.kind, "apiVersion": target.kind.stored_api_version}


def _keep_server_fields(metadata: Document, before: Document) -> None:
    for name in ("uid", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if name in before:
            metadata.setdefault(name, before[name])
    for name in ("creationTimestamp", "generation", "resourceVersion"):
        metadata.pop(name, None)
        if name in before:
            metadata[name] = before[name]


def _with_status(kind: Kind, document: Document, old: Document) -> Document:
    """Return the old object with the new status, and a built-in kind's with most new metadata."""
    merged = {name: copy(value) for name, value in old.items() if name != "status"}
    if not kind.is_custom:
        merged["metadata"] = document["metadata"]
        for name in kind.metadata_apart_from_status:
            merged["metadata"].pop(name, None)
            if name in old["metadata"]:
                merged["metadata"][name] = old["metadata"][name]
    return {**merged, "status": document["status"]} if "status" in document else merged


def _raise_generation(target: Target, document: Document, old: Document) -> None:
    kind = target.kind
    if not kind.has_generation or target.subresource == "status":
        return
    is_changed = not is_same(_spec(kind, document), _spec(kind, old))
    if kind.annotations_raise_generation:
        notes, before = (each["metadata"].get("annotations") for each in (document, old))
        is_changed = is_changed or notes != before
    if is_changed:
        document["metadata"]["generation"] = old["metadata"]["generation"] + 1


def _spec(kind: Kind, document: Document) -> Document:
    """Return everything but metadata; a status is included if it is no subresource."""
    apart = APART_FROM_SPEC if kind.has_status else APART_FROM_SPEC - {"status"}
    return {name: value for name, value in document.items() if name not in apart}


def _is_released(kind: Kind, document: Document) -> bool:
    """Return whether the object is marked for deletion and has no finalizer or grace left."""
    metadata = document["metadata"]
    is_held = metadata.get("finalizers") or (kind is NAMESPACES and document["spec"])
    is_due = metadata.get("deletionGracePeriodSeconds", 0) == 0
    return "deletionTimestamp" in metadata and is_due and not is_held
