"""Values as Kubernetes encodes them, without empty members, and patches between two of them."""

from datetime import datetime
from functools import cache
from typing import Any, Final, TypeVar

import attrs

from gpuruntime.models.encoding.json import JsonObject, JsonValue
from gpuruntime.models.encoding.members import default_of
from gpuruntime.models.kubernetes.timestamps import rfc3339

T = TypeVar("T")

_ALWAYS: Final = "always"
_SCALARS: Final = frozenset({str, bool, int, float, type(None)})


def always(default: T) -> T:
    """Return a field that is written even if it is empty, such as zero restarts."""
    field: T = attrs.field(default=default, metadata={_ALWAYS: True})
    return field


def wire(value: object) -> JsonObject:
    """Return the value as a body, without members at their defaults, as Go's omitempty does."""
    model: type = type(value)
    members = ((name, getattr(value, name), empty) for name, empty in _members(model))
    return {name: _plain(member) for name, member, empty in members if member not in (None, empty)}


def patch_between(old: JsonObject, new: JsonObject) -> JsonObject:
    """Return the merge patch that turns old into new; it is empty if they are equal."""
    patch: JsonObject = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            inner = patch_between(before, value)
            if inner:
                patch[name] = inner
        elif name not in old or before != value:
            patch[name] = value
    return patch


@cache
def _members(model: type) -> tuple[tuple[str, object], ...]:
    """Return each member's name, and the value at which it is omitted."""
    return tuple(
        (each.name, None if _ALWAYS in each.metadata else default_of(each))
        for each in attrs.fields(model)
    )


def _plain(value: Any) -> JsonValue:
    if type(value) in _SCALARS:
        return value  # type: ignore[no-any-return]  # its type was looked at
    match value:
        case tuple() | list():
            return [_plain(item) for item in value]
        case dict():
            return {key: _plain(item) for key, item in value.items()}
        case datetime():
            return rfc3339(value)
        case _:
            return wire(value)
