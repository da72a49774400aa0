"""The custom kinds of a server, which follow the definitions that it stores."""

from collections.abc import Callable
from datetime import datetime

import attrs
import msgspec

from gpuruntime.embedded.apiserver.documents import Document
from gpuruntime.embedded.objects.registry import Kind, Registry, fields
from gpuruntime.embedded.objects.store import Store
from gpuruntime.embedded.schemas.definition_objects import DefinitionSpec, Schema, Version
from gpuruntime.embedded.schemas.definition_rules import DefinitionRules, spec_of
from gpuruntime.embedded.schemas.faults import Fault
from gpuruntime.embedded.schemas.pruning import fill, prune
from gpuruntime.embedded.schemas.structural import Compiler, Node, Twins
from gpuruntime.embedded.schemas.validation import faults_of


class CustomRules:
    """The rules of a custom kind: its schema."""

    def __init__(self, schema: Node) -> None:
        self._schema = schema

    def prune(self, document: Document) -> list[str]:
        return prune(self._schema, document)

    def fill(self, document: Document, old: Document | None) -> None:
        fill(self._schema, document)

    def faults(self, document: Document, old: Document | None) -> list[Fault]:
        return faults_of(self._schema, document, old)


class Definitions:
    """The definitions, which keep the registry's custom kinds up to date."""

    def __init__(
        self, store: Store, registry: Registry, twins: Twins, now: Callable[[], datetime]
    ) -> None:
        self.kind = Kind(
            group="apiextensions.k8s.io",
            kind="CustomResourceDefinition",
            short_names=("crd", "crds"),
            categories=("api-extensions",),
            is_namespaced=False,
            has_status=True,
            has_generation=True,
            allows_unconditional_update=False,
            rules=DefinitionRules(twins, now, self._accepted_beside),
        )
        self._store = store
        self._registry = registry
        self._twins = twins
        self._seen_version = 0
        self._kinds: dict[str, tuple[int, list[Kind]]] = {}
        registry.add(self.kind)

    def refresh(self) -> None:
        """Update the registry; call this before each request's kind is looked up.

        It costs nothing while no definition changes.
        """
        collection = self._store.collection(self.kind)
        if collection.version == self._seen_version:
            return
        self._seen_version = collection.version
        present = {stored.path: stored for stored in collection.present()}
        for path in [path for path in self._kinds if path not in present]:
            _, kinds = self._kinds.pop(path)
            for kind in kinds:
                self._registry.remove(kind)
                self._store.drop(kind)
        for path, stored in present.items():
            version, kinds = self._kinds.get(path, (0, []))
            if version != stored.version:
                self._serve(path, stored.version, kinds, stored.document())

    def _serve(self, path: str, version: int, before: list[Kind], document: Document) -> None:
        for kind in before:
            self._registry.remove(kind)
        kinds = self._kinds_of(document) if _is_established(document) else []
        for kind in kinds:
            self._registry.add(kind)
        self._kinds[path] = version, kinds

    def _kinds_of(self, document: Document) -> list[Kind]:
        spec = spec_of(document)
        (stored,) = (version.name for version in spec.versions if version.storage)
        is_terminating = "deletionTimestamp" in document["metadata"]
        written = document["spec"]["versions"]
        kinds = [
            self._kind(spec, version, raw["schema"]["openAPIV3Schema"])
            for version, raw in zip(spec.versions, written, strict=True)
            if version.served
        ]
        return [
            attrs.evolve(kind, stored_version=stored, is_terminating=is_terminating)
            for kind in kinds
        ]

    def _kind(self, spec: DefinitionSpec, version: Version, schema: Document) -> Kind:
        names, subresources = spec.names, version.subresources
        node = Compiler(self._twins).compile(msgspec.convert(schema, Schema), "")
        paths = (each.jsonPath.removeprefix(".") for each in version.selectableFields)
        return Kind(
            group=spec.group,
            version=version.name,
            kind=names.kind,
            list_kind=names.listKind,
            plural=names.plural,
            singular=names.singular,
            short_names=tuple(names.shortNames),
            categories=tuple(names.categories),
            is_namespaced=spec.scope == "Namespaced",
            is_custom=True,
            has_status=subresources is not None and subresources.status is not None,
            has_generation=True,
            allows_unconditional_update=False,
            rules=CustomRules(node),
            schema=schema,
            field_paths=fields(*paths),
            columns=tuple(version.additionalPrinterColumns),
        )

    def _accepted_beside(self, name: str) -> list[DefinitionSpec]:
        documents = [
            stored.document()
            for stored in self._store.collection(self.kind).present()
            if stored.path != name
        ]
        return [spec_of(each) for each in documents if _is_established(each)]


def _is_established(document: Document) -> bool:
    return any(
        each["type"] == "Established" and each["status"] == "True"
        for each in document["status"]["conditions"]
    )
