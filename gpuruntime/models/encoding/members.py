"""Members of attrs values: their defaults, those that differ, and those that classes share."""

from functools import cache
from typing import Any

import attrs

from gpuruntime.models.encoding.json import JsonObject, JsonValue


def default_of(field: "attrs.Attribute[Any]") -> Any:
    """Return the field's default, for comparison only; a factory's value is new each time."""
    default: Any = field.default
    return default.factory() if hasattr(default, "factory") else default


def compact(value: Any) -> JsonObject:
    """Return an attrs value as JSON, without the members that equal their defaults."""
    model: type = type(value)
    return {
        name: _plain(member)
        for name, default in _defaults(model)
        if (member := getattr(value, name)) != default
    }


def shared(value: Any, model: type) -> dict[str, Any]:
    """Return the members of an attrs value that the model has as well, by their names."""
    source: type = type(value)
    return {name: getattr(value, name) for name in shared_names(source, model)}


@cache
def shared_names(source: type, model: type) -> tuple[str, ...]:
    """Return the names of the fields of both classes, in the order of the first."""
    known = {field.name for field in attrs.fields(model)}
    return tuple(field.name for field in attrs.fields(source) if field.name in known)


def _plain(value: Any) -> JsonValue:
    if type(value) is str:  # most members are, and asking attrs is slower
        return value
    if attrs.has(type(value)):
        return compact(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value  # type: ignore[no-any-return]  # plain JSON otherwise


@cache
def _defaults(model: type) -> tuple[tuple[str, Any], ...]:
    return tuple((field.name, default_of(field)) for field in attrs.fields(model))
