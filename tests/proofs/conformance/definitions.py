"""Two kinds for tests: Widget with most features of a schema, and Gadget without a schema."""

from typing import Any

from tests.proofs.conformance.calls import Api
from tests.proofs.conformance.objects import DEFINITIONS, GADGETS, WIDGETS, Document, named

OPEN_OBJECT: Document = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
WIDGET_SPEC: Document = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 10},
        "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
        "title": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 5},
        "amount": {"x-kubernetes-int-or-string": True},
        "ratio": {"type": "number"},
        "isOn": {"type": "boolean"},
        "at": {"type": "string", "format": "date-time"},
        "tags": {"type": "array", "maxItems": 2, "items": {"type": "string"}},
        "labels": {
            "type": "object",
            "maxProperties": 2,
            "additionalProperties": {"type": "string"},
        },
        "parts": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "count": {"type": "integer", "default": 1},
                },
            },
        },
        "nested": {
            "type": "object",
            "default": {},
            "properties": {"depth": {"type": "integer", "default": 3}},
        },
        "maybe": {"type": "string", "nullable": True},
        "anything": OPEN_OBJECT,
    },
}
WIDGET_STATUS: Document = {
    "type": "object",
    "properties": {"phase": {"type": "string"}, "count": {"type": "integer"}},
}
WIDGET_COLUMNS: list[Document] = [
    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
    {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
    {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]


def definition(
    group: str, kind: str, *, plural: str = "", scope: str = "Namespaced", **version: Any
) -> Document:
    singular = kind.lower()
    plural = plural or f"{singular}s"
    names = {"kind": kind, "plural": plural, "singular": singular, "listKind": f"{kind}List"}
    served = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": OPEN_OBJECT},
        **version,
    }
    spec = {"group": group, "scope": scope, "names": names, "versions": [served]}
    return named(DEFINITIONS, f"{plural}.{group}", spec=spec)


def widget_definition() -> Document:
    schema = {"type": "object", "properties": {"spec": WIDGET_SPEC, "status": WIDGET_STATUS}}
    made = definition(
        WIDGETS.group,
        WIDGETS.kind,
        schema={"openAPIV3Schema": schema},
        subresources={"status": {}},
        additionalPrinterColumns=WIDGET_COLUMNS,
    )
    made["spec"]["names"] |= {"shortNames": ["wd"], "categories": ["conformance"]}
    return made


def gadget_definition() -> Document:
    """Return the definition of Gadget: cluster-scoped, without status subresource and pruning."""
    return definition(GADGETS.group, GADGETS.kind, scope="Cluster")


def widget(name: str, *, metadata: Document | None = None, **spec: Any) -> Document:
    return named(WIDGETS, name, metadata=metadata or {}, spec={"size": 1, **spec})


def gadget(name: str, **members: Any) -> Document:
    return named(GADGETS, name, **members)


def is_established(document: Document) -> bool:
    conditions = document.get("status", {}).get("conditions") or []
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


async def define(api: Api, definition: Document) -> None:
    """Create the definition, unless an earlier test has, and wait until its kind is served."""
    answer = await api.post(DEFINITIONS.path(), definition)
    assert answer.status in {201, 409}, answer
    await api.settled(DEFINITIONS.path(name=definition["metadata"]["name"]), is_established)
    spec = definition["spec"]
    # For a moment after Established the path answers 404, then 429.
    path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
    await api.settled(path, bool)
