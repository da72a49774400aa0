"""Namespaces: those that exist from the start, and whether objects may be created in one."""

from typing import Final

from gpuruntime.embedded.apiserver.documents import Document
from gpuruntime.embedded.apiserver.status_errors import StatusError, forbidden, not_found
from gpuruntime.embedded.objects.registry import Kind, Target, fields
from gpuruntime.embedded.objects.store import Store
from gpuruntime.embedded.schemas.faults import Fault
from gpuruntime.embedded.schemas.go_types import go_structs, read_document
from gpuruntime.embedded.schemas.names import label_faults

FINALIZER: Final = "kubernetes"
INITIAL: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
UNDELETABLE: Final = ("default", "kube-public", "kube-system")
NAME_LABEL: Final = "kubernetes.io/metadata.name"
TERMINATING: Final = "Terminating"


class NamespaceRules:
    """Rules of namespaces: a label with the name, a finalizer, and the phase."""

    def prune(self, document: Document) -> list[str]:
        return read_document(go_structs()["Namespace"], document)

    def fill(self, document: Document, old: Document | None) -> None:
        metadata = document["metadata"]
        metadata.setdefault("labels", {})[NAME_LABEL] = metadata.get("name", "")
        if old is None:
            document["spec"] = {"finalizers": [FINALIZER]}
            document["status"] = {"phase": "Active"}
        else:
            document["spec"] = old["spec"]

    def faults(self, document: Document, old: Document | None) -> list[Fault]:
        return []


NAMESPACES: Final = Kind(
    kind="Namespace",
    short_names=("ns",),
    is_namespaced=False,
    has_status=True,
    name_faults=label_faults,
    rules=NamespaceRules(),
    field_paths=fields("status.phase"),
)


def require_namespace(store: Store, target: Target) -> None:
    """Raise StatusError unless objects may be created in the target's namespace."""
    if not target.kind.is_namespaced:
        return
    namespace = store.collection(NAMESPACES).get(target.namespace)
    if namespace is None:
        raise not_found(NAMESPACES, target.namespace)
    if namespace.fields["status.phase"] == TERMINATING:
        raise _terminating(target)


def _terminating(target: Target) -> StatusError:
    why = f"unable to create new content in namespace {target.namespace} because it is being"
    refusal = forbidden(target.kind, target.name, f"{why} terminated")
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {target.namespace} is being terminated",
        "field": "metadata.namespace",
    }
    refusal.details = {**(refusal.details or {}), "causes": [cause]}
    return refusal
