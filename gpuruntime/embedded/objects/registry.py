"""The kinds that the server serves, and what it knows of each."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final, Protocol

import attrs

from gpuruntime.embedded.apiserver.documents import Document, encode
from gpuruntime.embedded.objects.versions import path_of
from gpuruntime.embedded.schemas.definition_objects import Column
from gpuruntime.embedded.schemas.faults import Fault
from gpuruntime.embedded.schemas.names import NameRule, subdomain_faults

NO_FIELDS: Final[Mapping[str, str]] = {}


class Rules(Protocol):
    """How documents of a kind are pruned, filled and validated, in this order."""

    def prune(self, document: Document) -> list[str]:
        """Drop what the kind does not have, and return the dropped paths."""
        ...

    def fill(self, document: Document, old: Document | None) -> None:
        """Set defaults and what only the server may set; `old` is None at creation."""
        ...

    def faults(self, document: Document, old: Document | None) -> list[Fault]: ...


class NoRules:
    """Rules for kinds that are stored unchanged."""

    def prune(self, document: Document) -> list[str]:
        return []

    def fill(self, document: Document, old: Document | None) -> None:
        pass

    def faults(self, document: Document, old: Document | None) -> list[Fault]:
        return []


@attrs.frozen(kw_only=True, slots=True)
class Subresource:
    """A subresource; group and version are empty if they are those of its kind."""

    name: str
    kind: str
    group: str = ""
    version: str = ""
    verbs: tuple[str, ...]


@attrs.frozen(kw_only=True, eq=False)
class Kind:
    """A kind in one version; objects are stored in one of its versions, by default this one.

    `columns` and `schema` come from a custom kind's definition.
    """

    group: str = ""
    version: str = "v1"
    stored_version: str = ""
    kind: str
    list_kind: str = ""
    singular: str = attrs.field(
        default=attrs.Factory(lambda self: self.kind.lower(), takes_self=True)
    )
    plural: str = attrs.field(
        default=attrs.Factory(lambda self: f"{self.singular}s", takes_self=True)
    )
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    is_namespaced: bool = True
    is_custom: bool = False
    is_terminating: bool = False
    has_status: bool = False
    keeps_first_status: bool = False
    has_generation: bool = False
    allows_unconditional_update: bool = True
    creates_on_update: bool = False
    returns_deleted: bool = False
    is_graceful: bool = False
    orphans_by_default: bool = False
    annotations_raise_generation: bool = False
    # Metadata that a status write of a built-in kind leaves unchanged; a custom kind's leaves all.
    metadata_apart_from_status: tuple[str, ...] = ()
    name_faults: NameRule = subdomain_faults
    rules: Rules = attrs.field(factory=NoRules)
    field_paths: Mapping[str, str] = attrs.field(factory=dict)
    subresources: tuple[Subresource, ...] = ()
    columns: tuple[Column, ...] = ()
    schema: Document = attrs.field(factory=dict)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def resource(self) -> str:
        """Return the name that messages use, such as `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def fields_of(self, document: Document) -> Mapping[str, str]:
        """Return the fields for field selectors, other than name and namespace."""
        if not self.field_paths:
            return NO_FIELDS
        return {name: _text(document, path) for name, path in self.field_paths.items()}

    @cached_property
    def stored_api_version(self) -> str:
        return attrs.evolve(self, version=self.stored_version or self.version).api_version

    @cached_property
    def head(self) -> bytes:
        """Return the first bytes of a body of this kind in this version."""
        return _head(self.kind, self.api_version)

    @cached_property
    def stored_head(self) -> bytes:
        return _head(self.kind, self.stored_api_version)


@attrs.frozen(kw_only=True, slots=True)
class Target:
    """The target that a request addresses.

    A collection has no name, and a collection over all namespaces has no namespace.
    """

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def path(self) -> str:
        return path_of(self.namespace, self.name)


class Registry:
    """Kinds by group, version and plural; definitions add and remove the custom kinds."""

    def __init__(self, kinds: tuple[Kind, ...]) -> None:
        self._kinds = {(kind.group, kind.version, kind.plural): kind for kind in kinds}

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        return self._kinds.get((group, version, plural))

    def add(self, kind: Kind) -> None:
        self._kinds[kind.group, kind.version, kind.plural] = kind

    def remove(self, kind: Kind) -> None:
        self._kinds.pop((kind.group, kind.version, kind.plural), None)

    def has_group(self, group: str) -> bool:
        return any(kind.group == group for kind in self._kinds.values())

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._kinds.values())


def fields(*paths: str) -> dict[str, str]:
    """Return field selectors whose names are the paths that they select."""
    return {path: path for path in paths}


def _head(kind: str, api_version: str) -> bytes:
    return encode({"kind": kind, "apiVersion": api_version})[:-1] + b","


def _text(document: Document, path: str) -> str:
    value: Any = document
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
