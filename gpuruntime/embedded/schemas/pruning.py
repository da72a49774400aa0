"""Pruning and defaulting by a schema, before the document is validated."""

from collections.abc import Collection
from typing import Any, Final

from gpuruntime.embedded.apiserver.documents import Document, copy
from gpuruntime.embedded.schemas.structural import Node

ENVELOPE: Final = frozenset({"apiVersion", "kind", "metadata"})
HOLDERS: Final = frozenset({dict, list})
SETTLED: Final = frozenset({str, int, bool})


def prune(node: Node, document: Document) -> list[str]:
    """Drop members that the schema does not have, except the envelope, and return their paths."""
    dropped: list[str] = []
    _prune(node, document, "", dropped, ENVELOPE)
    return sorted(dropped)


def _prune(
    node: Node, value: Any, path: str, dropped: list[str], kept: Collection[str] = ()
) -> None:
    if isinstance(value, dict):
        if node.additional is not None and not node.properties:
            for name, item in value.items():
                _prune(node.additional, item, f"{path}.{name}", dropped)
            return
        for name in list(value):
            inner = node.properties.get(name)
            if name in kept or (node.is_embedded and name in ENVELOPE):
                continue
            if inner is not None:
                if type(value[name]) in HOLDERS:
                    _prune(inner, value[name], f"{path}.{name}" if path else name, dropped)
            elif not node.keeps_unknown:
                dropped.append(f"{path}.{name}" if path else name)
                del value[name]
    elif isinstance(value, list) and node.items is not None:
        for index, item in enumerate(value):
            _prune(node.items, item, f"{path}[{index}]", dropped)


def fill(node: Node, value: Any) -> Any:
    """Set defaults, drop nulls of members that are not nullable, and turn 2.0 into 2."""
    if isinstance(value, dict):
        _fill_members(node, value)
    elif isinstance(value, list):
        if node.items is not None:
            value[:] = [fill(node.items, item) for item in value]
    elif type(value) is float and value.is_integer() and node.types:
        return int(value)
    return value


def _fill_members(node: Node, value: Document) -> None:
    for name, item in list(value.items()):
        inner = node.properties.get(name, node.additional)
        if inner is None or type(item) in SETTLED:
            continue
        if item is None and not inner.is_nullable:
            if inner.types or inner.properties:
                del value[name]
        else:
            value[name] = fill(inner, item)
    for name, default in node.defaults.items():
        if name not in value:
            value[name] = fill(node.properties[name], copy(default))
