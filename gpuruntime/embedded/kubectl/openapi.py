"""OpenAPI v3 documents for `kubectl apply`, `explain` and validation, one per group.

They contain what kubectl reads: the schemas with merge keys, and that PATCH accepts
fieldValidation. Only schemas of definitions have descriptions.
"""

import hashlib
from collections.abc import Iterator
from typing import Any, Final

from gpuruntime.embedded.apiserver.documents import Document, encode
from gpuruntime.embedded.objects.registry import Kind, Registry
from gpuruntime.embedded.schemas.go_types import (
    GoType,
    ListOf,
    MapOf,
    Member,
    Scalar,
    Struct,
    go_structs,
)

PREFIX: Final = "io.k8s."
REFERENCE: Final = f"#/components/schemas/{PREFIX}"
QUERY: Final = [
    {"name": name, "in": "query", "schema": {"type": "string"}}
    for name in ("dryRun", "fieldManager", "fieldValidation")
]
SCALARS: Final[dict[str, Document]] = {
    "string": {"type": "string"},
    "int32": {"type": "integer", "format": "int32"},
    "bool": {"type": "boolean"},
    "float64": {"type": "number", "format": "double"},
    "[]uint8": {"type": "string", "format": "byte"},
    "resource.Quantity": {"type": "string"},
    "intstr.IntOrString": {"format": "int-or-string", "type": "string"},
    "v1.Time": {"type": "string", "format": "date-time"},
    "v1.MicroTime": {"type": "string", "format": "date-time"},
}


class Schemas:
    """OpenAPI documents, built on demand and rebuilt when their kinds change."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._made: dict[str, tuple[list[Kind], bytes]] = {}

    def index(self) -> Document:
        groups = dict.fromkeys(_place(kind) for kind in self._registry)
        return {"paths": {place: {"serverRelativeURL": self._url(place)} for place in groups}}

    def document(self, place: str) -> bytes | None:
        """Return the document of `api/v1` or `apis/group/version`, or None without such kinds."""
        kinds = [kind for kind in self._registry if _place(kind) == place]
        if not kinds:
            return None
        known, made = self._made.get(place, ([], b""))
        if known != kinds:
            made = encode(_document(kinds))
            self._made[place] = kinds, made
        return made

    def _url(self, place: str) -> str:
        """Return the URL with a hash, by which kubectl caches the document until it changes."""
        digest = hashlib.sha256(self.document(place) or b"").hexdigest().upper()
        return f"/openapi/v3/{place}?hash={digest}"


def _place(kind: Kind) -> str:
    return f"apis/{kind.api_version}" if kind.group else f"api/{kind.version}"


def _document(kinds: list[Kind]) -> Document:
    schemas: Document = {}
    for kind in kinds:
        if kind.schema:
            schemas[_component(kind)] = _custom_schema(kind)
        else:
            _add_struct(kind.kind, schemas)
    for kind in kinds:
        schema = schemas.setdefault(_component(kind), {"type": "object"})
        schema["x-kubernetes-group-version-kind"] = [_identity(kind)]
    return {
        "openapi": "3.0.0",
        "info": {"title": "gpuruntime local", "version": "1.34"},
        "paths": {path: item for kind in kinds for path, item in _paths(kind)},
        "components": {"schemas": schemas},
    }


def _component(kind: Kind) -> str:
    return f"{kind.resource}.{kind.version}.{kind.kind}" if kind.schema else PREFIX + kind.kind


def _identity(kind: Kind) -> Document:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _paths(kind: Kind) -> Iterator[tuple[str, Document]]:
    scope = "/namespaces/{namespace}" if kind.is_namespaced else ""
    root = f"/{_place(kind)}{scope}/{kind.plural}"
    shown = {"$ref": f"#/components/schemas/{_component(kind)}"}
    answer = {"200": {"description": "OK", "content": {"application/json": {"schema": shown}}}}

    def operation(action: str) -> Document:
        return {
            "parameters": QUERY,
            "responses": answer,
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": _identity(kind),
        }

    yield root, {"get": operation("list"), "post": operation("post")}
    verbs = {name: operation(name) for name in ("get", "put", "patch", "delete")}
    yield f"{root}/{{name}}", verbs


def _custom_schema(kind: Kind) -> Document:
    properties = dict(kind.schema.get("properties", {}))
    properties |= {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
    properties["metadata"] = {"type": "object"}
    return {**kind.schema, "properties": properties}


def _add_struct(name: str, schemas: Document) -> None:
    struct = go_structs().get(name)
    if struct is None or PREFIX + name in schemas:
        return
    schema: Document = {"type": "object", "properties": {}}
    schemas[PREFIX + name] = schema
    for member_name, member in struct.members.items():
        schema["properties"][member_name] = _member_schema(member, schemas)
    if "metadata" in struct.members:
        schema["properties"] |= {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}


def _member_schema(member: Member, schemas: Document) -> Document:
    schema: Document = _schema(member.type, schemas)
    strategies = ["merge"] if member.merge_key is not None else []
    strategies += ["retainKeys"] if member.retains_keys else []
    if strategies:
        schema["x-kubernetes-patch-strategy"] = ",".join(strategies)
    if member.merge_key:
        schema["x-kubernetes-patch-merge-key"] = member.merge_key
    return schema


def _schema(of: GoType, schemas: Document) -> Any:
    match of:
        case ListOf():
            return {"type": "array", "items": _schema(of.item, schemas)}
        case MapOf():
            return {"type": "object", "additionalProperties": _schema(of.value, schemas)}
        case Struct():
            _add_struct(of.name, schemas)
            return {"$ref": REFERENCE + of.name}
        case Scalar():
            return dict(SCALARS[of.name])
        case _:
            return {"type": "object"}
