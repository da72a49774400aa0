"""Defaults, checks and status of CustomResourceDefinitions."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final

import msgspec

from gpuruntime.embedded.apiserver.documents import Document, without_nulls
from gpuruntime.embedded.schemas.definition_objects import DefinitionSpec, Names, Schema, Version
from gpuruntime.embedded.schemas.faults import Fault, invalid_value, not_supported, required
from gpuruntime.embedded.schemas.json_path import compiled
from gpuruntime.embedded.schemas.member_types import check_shape
from gpuruntime.embedded.schemas.names import service_name_faults, subdomain_faults
from gpuruntime.embedded.schemas.structural import Compiler, Node, Twins
from gpuruntime.embedded.schemas.validation import value_faults
from gpuruntime.models.kubernetes.timestamps import rfc3339

FINALIZER: Final = "customresourcecleanup.apiextensions.k8s.io"
SCOPES: Final = ("Cluster", "Namespaced")
IMMUTABLE: Final = "field is immutable"

Rivals = Callable[[str], list[DefinitionSpec]]


def spec_of(document: Document) -> DefinitionSpec:
    return msgspec.convert(document["spec"], DefinitionSpec)


class DefinitionRules:
    """The rules of definitions; `rivals` returns the accepted ones other than the named one."""

    def __init__(self, twins: Twins, now: Callable[[], datetime], rivals: Rivals) -> None:
        self._twins = twins
        self._now = now
        self._rivals = rivals

    def prune(self, document: Document) -> list[str]:
        document["spec"] = without_nulls(document.get("spec") or {})
        check_shape(document["spec"], DefinitionSpec, "CustomResourceDefinitionSpec", "spec")
        return []

    def fill(self, document: Document, old: Document | None) -> None:
        spec = document["spec"]
        names = spec.setdefault("names", {})
        names.setdefault("singular", names.get("kind", "").lower())
        names.setdefault("listKind", f"{names.get('kind', '')}List")
        spec.setdefault("conversion", {"strategy": "None"})
        before = {} if old is None else old["status"]
        document["status"] = self._status(document, spec_of(document), before)

    def faults(self, document: Document, old: Document | None) -> list[Fault]:
        spec = spec_of(document)
        faults = [*_naming_faults(document, spec), *_version_faults(spec)]
        for index, version in enumerate(spec.versions):
            path = f"spec.versions[{index}].schema.openAPIV3Schema"
            if version.schema is None or version.schema.openAPIV3Schema is None:
                faults.append(required(path))
                continue
            # Kubernetes reports a single version at the path where v1beta1 had its schema.
            named = "spec.validation.openAPIV3Schema" if len(spec.versions) == 1 else path
            faults += self._schema_faults(version.schema.openAPIV3Schema, named)
            faults += _column_faults(version, f"spec.versions[{index}]")
        return faults + list(_changed_faults(spec, old))

    def _schema_faults(self, schema: Schema, path: str) -> list[Fault]:
        compiler = Compiler(self._twins)
        node = compiler.compile(schema, path)
        return compiler.faults or list(_default_faults(node, path))

    def _status(self, document: Document, spec: DefinitionSpec, old: Document) -> Document:
        is_free = not self._clashes(document, spec)
        was = {each["type"]: each for each in old.get("conditions", ())}
        established = is_free or was.get("Established", {}).get("status") == "True"
        accepted = self._condition(
            was, "NamesAccepted", is_free, ("NoConflicts", "no conflicts found"), "NamesConflict"
        )
        serving = self._condition(
            was,
            "Established",
            established,
            ("InitialNamesAccepted", "the initial names have been accepted"),
            "NotAccepted",
        )
        others = [each for name, each in was.items() if name == "Terminating"]
        stored = [version.name for version in spec.versions if version.storage]
        kept = old.get("storedVersions", [])
        return {
            "conditions": [accepted, serving, *others],
            "acceptedNames": document["spec"]["names"] if is_free else {"kind": "", "plural": ""},
            "storedVersions": kept + [name for name in stored if name not in kept],
        }

    def _clashes(self, document: Document, spec: DefinitionSpec) -> bool:
        names = _all_names(spec.names)
        return any(
            rival.group == spec.group and names & _all_names(rival.names)
            for rival in self._rivals(document["metadata"].get("name", ""))
        )

    def _condition(
        self, was: dict[str, Document], kind: str, holds: bool, yes: tuple[str, str], no: str
    ) -> Document:
        status = "True" if holds else "False"
        if was.get(kind, {}).get("status") == status:
            return was[kind]
        reason, message = yes if holds else (no, "another definition has one of the names")
        return {
            "type": kind,
            "status": status,
            "lastTransitionTime": rfc3339(self._now()),
            "reason": reason,
            "message": message,
        }


def _all_names(names: Names) -> set[str]:
    """Return all names; kinds begin with a capital, so they never clash with the others."""
    return {names.kind, names.listKind, names.plural, names.singular, *names.shortNames}


def _naming_faults(document: Document, spec: DefinitionSpec) -> Iterator[Fault]:
    name, names = document["metadata"].get("name", ""), spec.names
    if name != f"{names.plural}.{spec.group}":
        why = 'must be spec.names.plural+"."+spec.group'
        yield invalid_value("metadata.name", name, why)
    if not spec.group:
        yield required("spec.group")
    else:
        for why in subdomain_faults(spec.group):
            yield invalid_value("spec.group", spec.group, why)
        if "." not in spec.group:
            why = "should be a domain with at least one dot"
            yield invalid_value("spec.group", spec.group, why)
    if not spec.scope:
        yield required("spec.scope")
    elif spec.scope not in SCOPES:
        yield not_supported("spec.scope", spec.scope, list(SCOPES))
    for member in ("plural", "singular", "kind", "listKind"):
        if not getattr(names, member) or (member == "listKind" and not names.kind):
            yield required(f"spec.names.{member}")


def _version_faults(spec: DefinitionSpec) -> Iterator[Fault]:
    shown = [version.name for version in spec.versions]
    for index, name in enumerate(shown):
        for why in service_name_faults(name):
            yield invalid_value(f"spec.versions[{index}].name", name, why)
    if len(set(shown)) < len(shown):
        yield invalid_value("spec.versions", shown, "must contain unique version names")
    if sum(version.storage for version in spec.versions) != 1:
        why = "must have exactly one version marked as storage version"
        yield invalid_value("spec.versions", shown, why)
    if spec.conversion is not None and spec.conversion.strategy != "None":
        why = "this server calls no webhooks: versions may differ in their names alone"
        yield invalid_value("spec.conversion.strategy", spec.conversion.strategy, why)


def _column_faults(version: Version, path: str) -> Iterator[Fault]:
    for index, column in enumerate(version.additionalPrinterColumns):
        try:
            compiled(column.jsonPath)
        except ValueError as error:
            place = f"{path}.additionalPrinterColumns[{index}].jsonPath"
            yield invalid_value(place, column.jsonPath, str(error))


def _changed_faults(spec: DefinitionSpec, old: Document | None) -> Iterator[Fault]:
    """Return the faults of a changed definition.

    What is served must not change, and versions that were stored must remain.
    """
    if old is None:
        return
    before = spec_of(old)
    for field, now, then in (
        ("spec.group", spec.group, before.group),
        ("spec.scope", spec.scope, before.scope),
        ("spec.names.kind", spec.names.kind, before.names.kind),
        ("spec.names.plural", spec.names.plural, before.names.plural),
    ):
        if now != then:
            yield invalid_value(field, now, IMMUTABLE)
    kept = {version.name for version in spec.versions}
    for index, name in enumerate(old["status"]["storedVersions"]):
        if name not in kept:
            why = "missing from spec.versions; it was a storage version, and must remain"
            yield invalid_value(f"status.storedVersions[{index}]", name, why)


def _default_faults(node: Node, path: str) -> Iterator[Fault]:
    for name, inner in node.properties.items():
        place = f"{path}.properties[{name}]"
        if name in node.defaults:
            yield from value_faults(inner, node.defaults[name], f"{place}.default")
        yield from _default_faults(inner, place)
    if node.items is not None:
        yield from _default_faults(node.items, f"{path}.items")
    if node.additional is not None:
        yield from _default_faults(node.additional, f"{path}.additionalProperties")
