"""Objects whose deletion deletes their contents: namespaces and CustomResourceDefinitions."""

from collections.abc import Callable
from datetime import datetime
from typing import Final, Protocol

from gpuruntime.embedded.apiserver.documents import Document
from gpuruntime.embedded.apiserver.status_errors import forbidden
from gpuruntime.embedded.objects.namespaces import NAMESPACES, TERMINATING, UNDELETABLE
from gpuruntime.embedded.objects.registry import Kind, Target
from gpuruntime.embedded.objects.store import Collection, Store
from gpuruntime.embedded.schemas.definition_rules import FINALIZER
from gpuruntime.models.kubernetes.timestamps import rfc3339


class CascadingOwner(Protocol):
    """An object that contains others: it is marked, emptied, and released after its last one."""

    @property
    def kind(self) -> Kind: ...

    def mark(self, document: Document) -> None:
        """Record in the document that it terminates; raise StatusError if that is forbidden."""
        ...

    def release(self, document: Document) -> None:
        """Remove the owner's own finalizer."""
        ...

    def contents(self, name: str) -> list[Target]: ...

    def name_for(self, target: Target) -> str | None:
        """Return the name of the owner that contains the target, or None."""
        ...


class NamespaceOwner:
    kind: Final = NAMESPACES

    def __init__(self, store: Store) -> None:
        self._store = store

    def mark(self, document: Document) -> None:
        name = document["metadata"]["name"]
        if name in UNDELETABLE:
            raise forbidden(NAMESPACES, name, "this namespace may not be deleted")
        document["status"]["phase"] = TERMINATING

    def release(self, document: Document) -> None:
        document["spec"] = {}

    def contents(self, name: str) -> list[Target]:
        return [
            target
            for collection in self._store.collections()
            if collection.kind.is_namespaced
            for target in _targets(collection, f"{name}/")
        ]

    def name_for(self, target: Target) -> str | None:
        return target.namespace or None


class DefinitionOwner:
    def __init__(self, store: Store, kind: Kind, now: Callable[[], datetime]) -> None:
        self.kind: Final = kind
        self._store = store
        self._now = now

    def mark(self, document: Document) -> None:
        terminating = {
            "type": "Terminating",
            "status": "True",
            "lastTransitionTime": rfc3339(self._now()),
            "reason": "InstanceDeletionInProgress",
            "message": "CustomResource deletion is in progress",
        }
        document["status"]["conditions"].append(terminating)
        finalizers = document["metadata"].setdefault("finalizers", [])
        if FINALIZER not in finalizers:
            finalizers.append(FINALIZER)

    def release(self, document: Document) -> None:
        metadata = document["metadata"]
        metadata["finalizers"] = [each for each in metadata["finalizers"] if each != FINALIZER]

    def contents(self, name: str) -> list[Target]:
        return [
            target
            for collection in self._store.collections()
            if collection.kind.is_custom and collection.kind.resource == name
            for target in _targets(collection, "")
        ]

    def name_for(self, target: Target) -> str | None:
        return target.kind.resource if target.kind.is_custom else None


def _targets(collection: Collection, prefix: str) -> list[Target]:
    return [
        Target(kind=collection.kind, namespace=stored.namespace, name=stored.name)
        for stored in collection.present(prefix)
    ]
