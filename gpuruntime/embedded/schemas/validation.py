"""Validation by a schema: every invalid field at once, then the rules."""

import math
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from gpuruntime.embedded.apiserver.documents import Document, encode_value, is_same
from gpuruntime.embedded.schemas.faults import (
    Fault,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
    too_long,
    too_many,
    type_invalid,
)
from gpuruntime.embedded.schemas.structural import Node, Rule

# With a fault of these reasons the rules are skipped: they could not read the object.
BLOCKING: Final = frozenset(
    {
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    }
)
UNCHECKED: Final = Fault(
    "<nil>",
    "FieldValueInvalid",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)


_NAMES: Final[dict[type, str]] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


class _Absent:
    """The absence of an old value."""


ABSENT: Final = _Absent()


def faults_of(node: Node, document: Document, old: Document | None) -> list[Fault]:
    """Return the faults of a document; unchanged parts may predate the schema and are skipped."""
    before = ABSENT if old is None else old
    faults = list(_faults(node, document, before, ""))
    if any(fault.reason in BLOCKING for fault in faults):
        return [*faults, UNCHECKED] if node.has_rules else faults
    return faults + list(_broken_rules(node, document, before, ""))


def value_faults(node: Node, value: Any, path: str) -> list[Fault]:
    """Return the faults of a value without an old one, such as a default."""
    return list(_faults(node, value, ABSENT, path))


def _faults(node: Node, value: Any, old: Any, path: str) -> Iterator[Fault]:
    if value is None and node.is_nullable:
        return
    if old is not ABSENT and is_same(value, old):
        return
    named = _NAMES[type(value)]
    if (
        node.types
        and named not in node.types
        and not (named == "integer" and "number" in node.types)
    ):
        yield type_invalid(path, named, ",".join(node.types))
        return
    if node.enum and value not in node.enum:
        yield not_supported(path, value, list(node.enum))
    if node.has_alternatives:
        yield from _alternative_faults(node, value, path)
    match named:
        case "object":
            yield from _object_faults(node, value, old, path)
        case "array":
            yield from _array_faults(node, value, old, path)
        case "string":
            yield from _text_faults(node, value, path)
        case "integer" | "number":
            yield from _number_faults(node, value, path)
        case _:
            pass


def _object_faults(node: Node, value: Document, old: Any, path: str) -> Iterator[Fault]:
    for name in node.required:
        if name not in value:
            yield required(_child(path, name))
    if node.bounds:
        yield from _count_faults(node, len(value), path)
    before = old if isinstance(old, dict) else {}
    for name, item in value.items():
        inner = node.properties.get(name, node.additional)
        if inner is not None:
            yield from _faults(inner, item, before.get(name, ABSENT), _child(path, name))


def _count_faults(node: Node, count: int, path: str) -> Iterator[Fault]:
    if count > node.bounds.get("maxProperties", math.inf):
        yield too_many(path, count, node.bounds["maxProperties"])
    if count < node.bounds.get("minProperties", 0):
        least = node.bounds["minProperties"]
        yield invalid_value(path, count, f"{path} in body should have at least {least} properties")


def _array_faults(node: Node, value: list[Any], old: Any, path: str) -> Iterator[Fault]:
    if len(value) > node.bounds.get("maxItems", math.inf):
        yield too_many(path, len(value), node.bounds["maxItems"])
    if len(value) < node.bounds.get("minItems", 0):
        least = node.bounds["minItems"]
        yield invalid_value(path, len(value), f"{path} in body should have at least {least} items")
    before = _by_keys(node, old)
    for index, item in enumerate(value):
        if node.items is not None:
            earlier = before.get(_key(node, item), ABSENT)
            yield from _faults(node.items, item, earlier, f"{path}[{index}]")
    yield from _duplicate_faults(node, value, path)


def _duplicate_faults(node: Node, value: list[Any], path: str) -> Iterator[Fault]:
    if node.list_type not in ("map", "set"):
        return
    seen = set()
    for index, item in enumerate(value):
        key = _key(node, item)
        if key in seen:
            named = {name: item[name] for name in node.list_keys if name in item}
            yield duplicate(f"{path}[{index}]", named if node.list_type == "map" else item)
        seen.add(key)


def _text_faults(node: Node, value: str, path: str) -> Iterator[Fault]:
    if len(value) > node.bounds.get("maxLength", math.inf):
        yield too_long(path, node.bounds["maxLength"])
    if len(value) < node.bounds.get("minLength", 0):
        least = node.bounds["minLength"]
        yield invalid_value(path, value, f"{path} in body should be at least {least} chars long")
    if node.pattern is not None and not node.pattern.search(value):
        text = re.sub(r"\\Z$", "$", node.pattern.pattern)
        yield invalid_value(path, value, f"{path} in body should match '{text}'")
    if node.format == "date-time" and not _is_moment(value):
        yield Fault(
            path,
            "FieldValueTypeInvalid",
            f'Invalid value: "{value}": {path} in body must be of type date-time: "{value}"',
        )


def _number_faults(node: Node, value: float, path: str) -> Iterator[Fault]:
    least = node.bounds.get("minimum", -math.inf)
    most = node.bounds.get("maximum", math.inf)
    step = node.bounds.get("multipleOf")
    if value < least or (value == least and node.is_above_minimum):
        words = "greater than" if node.is_above_minimum else "greater than or equal to"
        yield invalid_value(path, value, f"{path} in body should be {words} {least}")
    if value > most or (value == most and node.is_below_maximum):
        words = "less than" if node.is_below_maximum else "less than or equal to"
        yield invalid_value(path, value, f"{path} in body should be {words} {most}")
    if step and value % step:
        yield invalid_value(path, value, f"{path} in body should be a multiple of {step}")


def _alternative_faults(node: Node, value: Any, path: str) -> Iterator[Fault]:
    for inner in node.all_of:
        yield from _faults(inner, value, ABSENT, path)
    words = f"{path} in body must validate"
    if node.any_of and not any(_fits(inner, value) for inner in node.any_of):
        yield invalid_value(path, "", f"{words} at least one schema (anyOf)")
    if node.one_of and sum(_fits(inner, value) for inner in node.one_of) != 1:
        yield invalid_value(path, "", f"{words} one and only one schema (oneOf)")
    if node.none_of is not None and _fits(node.none_of, value):
        yield invalid_value(path, "", f"{path} in body must not validate the schema (not)")


def _fits(node: Node, value: Any) -> bool:
    return next(_faults(node, value, ABSENT, ""), None) is None


def _broken_rules(node: Node, value: Any, old: Any, path: str) -> Iterator[Fault]:
    """Yield broken rules; as in CEL, oldSelf follows members, map values and keyed items."""
    if not node.has_rules or value is None or (old is not ABSENT and is_same(value, old)):
        return
    for rule in node.rules:
        if rule.needs_old and old is ABSENT:
            continue
        if not rule.holds(value, None if old is ABSENT else old):
            yield _broken(rule, value, path)
    if isinstance(value, dict):
        before = old if isinstance(old, dict) else {}
        for name, item in value.items():
            inner = node.properties.get(name, node.additional)
            if inner is not None and inner.has_rules:
                place = _child(path, name)
                yield from _broken_rules(inner, item, before.get(name, ABSENT), place)
    elif isinstance(value, list) and node.items is not None and node.items.has_rules:
        earlier = _by_keys(node, old)
        for index, item in enumerate(value):
            before = earlier.get(_key(node, item), ABSENT)
            yield from _broken_rules(node.items, item, before, f"{path}[{index}]")


def _broken(rule: Rule, value: Any, path: str) -> Fault:
    field = (path + rule.field_path).removeprefix(".") or "<nil>"
    shown = _NAMES[type(value)] if isinstance(value, dict | list | str) else value
    match rule.reason:
        case "FieldValueForbidden":
            return forbidden_field(field, rule.message)
        case "FieldValueRequired":
            return required(field, rule.message)
        case "FieldValueDuplicate":
            return duplicate(field, shown)
        case _:
            return invalid_value(field, shown, rule.message)


def _by_keys(node: Node, old: Any) -> dict[bytes, Any]:
    """Return the old items of a keyed list by key; items of other lists cannot be matched."""
    if node.list_type != "map" or not isinstance(old, list):
        return {}
    return {_key(node, item): item for item in old}


def _key(node: Node, item: Any) -> bytes:
    if node.list_type == "map" and isinstance(item, dict):
        return encode_value([item.get(name) for name in node.list_keys])
    return encode_value(item) if node.list_type else b""


def _is_moment(text: str) -> bool:
    if len(text) < len("2006-01-02T15:04:05Z") or text[10] not in "Tt ":
        return False
    try:
        return datetime.fromisoformat(text.upper()).tzinfo is not None
    except ValueError:
        return False


def _child(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
