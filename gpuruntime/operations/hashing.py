"""The hash of a request decides whether another request is its replay.

Members that equal their defaults are left out of the hash. So a field that a later version adds
does not change the hash of requests that never named it. The golden hashes in the tests protect
this. If they change, honest replays of running callers become conflicts.
"""

import hashlib
from functools import cache
from typing import Any

import attrs

from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.codec import default_of
from gpuruntime.models.encoding.json import JsonObject, JsonValue
from gpuruntime.models.kubernetes.quantities import parse_quantity

_DERIVED_LENGTH = 40
# Members outside the hash: the operationID itself, and namespaces, which the server's settings
# decide.
_OUTSIDE = ("operationID", "namespace", "stockNamespace")
_QUANTITIES = ("cpu", "memory", "size")


def request_hash(request: Any) -> str:
    """Return the SHA-256 of the canonical JSON of a validated request, before any expansion."""
    said = {name: value for name, value in compact(request).items() if name not in _OUTSIDE}
    for name in _QUANTITIES:
        if isinstance(text := said.get(name), str):
            said[name] = str(parse_quantity(text))
    return hashlib.sha256(codec.encode_canonical(said)).hexdigest()


def derived_name(operation_id: str) -> str:
    """Return the name of an object whose caller chose none; callers cannot choose such a name."""
    return f"op-{operation_digest(operation_id)}"


def operation_digest(operation_id: str) -> str:
    return hashlib.sha256(operation_id.encode()).hexdigest()[:_DERIVED_LENGTH]


def compact(value: Any) -> JsonObject:
    """Return an attrs value as JSON, without the members that equal their defaults."""
    model: type = type(value)
    return {
        name: _plain(member)
        for name, default in _members(model)
        if (member := getattr(value, name)) != default
    }


def _plain(value: Any) -> JsonValue:
    if type(value) is str:  # most members are, and asking attrs is slower
        return value
    if attrs.has(type(value)):
        return compact(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value  # type: ignore[no-any-return]  # a scalar of a validated request


@cache
def _members(model: type) -> tuple[tuple[str, Any], ...]:
    """Return the names of the members with their defaults, which are for comparison only."""
    return tuple((field.name, default_of(field)) for field in attrs.fields(model))
