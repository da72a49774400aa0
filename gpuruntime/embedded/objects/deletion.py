"""Deletion: preconditions, finalizers, grace periods, and objects that contain others."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

import attrs

from gpuruntime.embedded.apiserver.documents import Document
from gpuruntime.embedded.apiserver.status_errors import not_found, unmet_precondition
from gpuruntime.embedded.objects.cascading import CascadingOwner
from gpuruntime.embedded.objects.registry import Target
from gpuruntime.embedded.objects.store import Store, stored_from
from gpuruntime.embedded.objects.versions import Stored
from gpuruntime.models.kubernetes.timestamps import rfc3339

# The garbage collector's own finalizers: each says how to treat the dependents.
ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"
FINALIZERS_OF: Final = {"Foreground": [FOREGROUND], "Background": [], "Orphan": [ORPHAN]}


@attrs.frozen(kw_only=True, slots=True)
class DeleteOptions:
    """Options of a DELETE; empty and None mean that the caller left them open."""

    uid: str = ""
    resource_version: str = ""
    propagation: str = ""
    grace_seconds: int | None = None
    is_dry_run: bool = False


@attrs.frozen(kw_only=True, slots=True)
class Deleted:
    """The object as it is now, or its last state if it `is_gone`."""

    stored: Stored
    is_gone: bool


class Deletions:
    """Deletions mark an object that has finalizers or grace left, and remove any other at once."""

    def __init__(
        self, store: Store, owners: Sequence[CascadingOwner], now: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._owners = owners
        self._now = now

    def delete(self, target: Target, options: DeleteOptions) -> Deleted:
        stored = self._store.collection(target.kind).get(target.path)
        if stored is None:
            raise not_found(target.kind, target.name)
        document = stored.document()
        _check_preconditions(target, document, options)
        for owner in self._owners:
            if target.kind is owner.kind:
                return self._terminate(owner, target, stored, options)
        grace = self._grace_seconds(target, document, options)
        metadata = document["metadata"]
        if grace is not None and grace == metadata.get("deletionGracePeriodSeconds", 0) > 0:
            return Deleted(stored=stored, is_gone=False)
        finalizers = metadata["finalizers"] = _finalizers(target, metadata, options)
        if finalizers or grace is not None:
            self._mark(metadata, grace or 0)
            stored = self._write(target, stored, document, options)
        if finalizers or grace:
            return Deleted(stored=stored, is_gone=False)
        return self._removed(target, stored, options)

    def remove(self, target: Target) -> None:
        """Remove the object from the store, whatever finalizers it has."""
        self._store.remove(target.kind, target.path)
        for owner in self._owners:
            name = owner.name_for(target)
            if name is not None:
                self._finish(owner, name)

    def _removed(self, target: Target, stored: Stored, options: DeleteOptions) -> Deleted:
        if not options.is_dry_run:
            self.remove(target)
        return Deleted(stored=stored.at(self._store.version), is_gone=True)

    def _mark(self, metadata: Document, grace_seconds: int) -> None:
        """Set the deletion time, which can only move earlier.

        The first mark raises the generation.
        """
        moment = rfc3339(self._now() + timedelta(seconds=grace_seconds))
        marked = metadata.get("deletionTimestamp")
        if marked is None and "generation" in metadata:
            metadata["generation"] += 1
        metadata["deletionTimestamp"] = moment if marked is None else min(moment, marked)
        metadata["deletionGracePeriodSeconds"] = grace_seconds

    def _grace_seconds(
        self, target: Target, document: Document, options: DeleteOptions
    ) -> int | None:
        """Return the grace period, or None if the kind has none or it is over.

        A repeated deletion can only shorten it.
        """
        if not target.kind.is_graceful:
            return None
        asked = options.grace_seconds
        left = document["metadata"].get("deletionGracePeriodSeconds")
        if left is not None:
            return None if left == 0 else min(left, left if asked is None else max(asked, 0))
        spec, status = document.get("spec", {}), document.get("status", {})
        if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
            return 0
        seconds = spec.get("terminationGracePeriodSeconds", 0) if asked is None else asked
        return 1 if seconds < 0 else int(seconds)

    def _write(
        self, target: Target, stored: Stored, document: Document, options: DeleteOptions
    ) -> Stored:
        if not document["metadata"].get("finalizers"):
            document["metadata"].pop("finalizers", None)
        if document == stored.document():
            return stored
        if options.is_dry_run:
            return stored_from(target.kind, target.path, document, stored.version)
        return self._store.write(target.kind, target.path, document)

    def _terminate(
        self, owner: CascadingOwner, target: Target, stored: Stored, options: DeleteOptions
    ) -> Deleted:
        document = stored.document()
        if "deletionTimestamp" not in document["metadata"]:
            document["metadata"]["deletionTimestamp"] = rfc3339(self._now())
            owner.mark(document)
            stored = self._write(target, stored, document, options)
        if not options.is_dry_run:
            for inner in owner.contents(target.name):
                if self._store.collection(inner.kind).get(inner.path) is not None:
                    self.delete(inner, DeleteOptions(propagation="Background"))
            self._finish(owner, target.name)
        return Deleted(stored=stored, is_gone=False)

    def _finish(self, owner: CascadingOwner, name: str) -> None:
        """Release a terminating owner once its last content is gone."""
        stored = self._store.collection(owner.kind).get(name)
        if stored is None or b'"deletionTimestamp"' not in stored.body:
            return
        if owner.contents(name):
            return
        target = Target(kind=owner.kind, name=name)
        document = stored.document()
        owner.release(document)
        if document["metadata"].get("finalizers"):
            self._write(target, stored, document, DeleteOptions())
        else:
            self._store.remove(owner.kind, name)


def _check_preconditions(target: Target, document: Document, options: DeleteOptions) -> None:
    metadata = document["metadata"]
    uid, version = metadata["uid"], metadata["resourceVersion"]
    if options.uid and options.uid != uid:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({uid})"
        )
        why += ". The object might have been deleted and then recreated"
        raise unmet_precondition(target.kind, target.name, why)
    if options.resource_version and options.resource_version != version:
        why = (
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match"
        )
        why += f" the ResourceVersion in record ({version}). The object might have been modified"
        raise unmet_precondition(target.kind, target.name, why)


def _finalizers(target: Target, metadata: Document, options: DeleteOptions) -> list[str]:
    """Apply the propagation of this request, else of an earlier one, else the kind's default."""
    present = metadata.get("finalizers", [])
    others = [each for each in present if each not in (ORPHAN, FOREGROUND)]
    if options.propagation:
        return others + FINALIZERS_OF[options.propagation]
    asked_before = [each for each in present if each in (ORPHAN, FOREGROUND)]
    habit = [ORPHAN] if target.kind.orphans_by_default else []
    return others + (asked_before[:1] or habit)
