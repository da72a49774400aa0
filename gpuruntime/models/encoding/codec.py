"""Conversion of bytes into values and back; only this module turns Kubernetes' JSON into ours.

A JSON `null` reads as an absent member everywhere, as it does in the API server. That costs a
second, slower decoding, but only for objects whose types do not allow the null.
"""

from datetime import datetime
from enum import Enum
from functools import cache
from typing import Any, TypeVar

import attrs
import msgspec

from gpuruntime.errors import GpuRuntimeError
from gpuruntime.models.encoding.annotations import fields_of, notes_of
from gpuruntime.models.encoding.json import JsonObject, JsonValue
from gpuruntime.models.kubernetes.metadata import Key, PartialObject
from gpuruntime.models.kubernetes.timestamps import MICROSECONDS, rfc3339, rfc3339_micro

T = TypeVar("T")
Data = bytes | bytearray | memoryview

_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_encoder = msgspec.json.Encoder()
_canonical_encoder = msgspec.json.Encoder(order="sorted")
_decoders: dict[object, msgspec.json.Decoder[Any]] = {}
_PLAIN = frozenset({str, int, float, bool, type(None)})


@attrs.define(slots=False, eq=False)
class MalformedObjectError(GpuRuntimeError):
    """The bytes are not JSON, or not the JSON of this type."""

    type_name: str
    path: str
    fault: str
    key: Key | None = None

    def __attrs_post_init__(self) -> None:
        super().__init__(str(self))

    def __str__(self) -> str:
        subject = f"{self.type_name} {self.key}" if self.key else self.type_name
        return f"cannot read {subject} at {self.path}: {self.fault}"


def decode(data: Data, model: type[T]) -> T:
    """Decode the bytes and skip unknown members. Raise MalformedObjectError."""
    try:
        return _decoder(model).decode(data)
    except msgspec.ValidationError as error:
        if b"null" not in bytes(data):
            raise _malformed(data, model, error) from error
    except _UNREADABLE as error:
        raise _malformed(data, model, error) from error
    return _decode_without_nulls(data, model)


def decode_object(data: Data) -> JsonObject:
    """Decode plain JSON with its nulls. Raise MalformedObjectError for anything but an object."""
    try:
        return _decoder(dict[str, Any]).decode(data)
    except _UNREADABLE as error:
        raise _malformed(data, dict, error) from error


def encode(value: JsonValue) -> bytes:
    """Encode plain JSON; call to_json first for an attrs value."""
    return _encoder.encode(value)


def encode_canonical(value: JsonValue) -> bytes:
    """Encode equal values as equal bytes, for hashes, whatever the order of their members."""
    return _canonical_encoder.encode(value)


def to_json(value: object) -> JsonObject:
    """Return an attrs value as a request body, without Nones."""
    model: type = type(value)
    body: JsonObject = {}
    for name, is_micro in _members(model):
        member = _plain(getattr(value, name), is_micro=is_micro)
        if member is not None:
            body[name] = member
    return body


def _plain(value: object, *, is_micro: bool = False) -> JsonValue:
    if type(value) in _PLAIN:  # most values are, and a match takes longer
        return value  # type: ignore[return-value]  # as the set says
    match value:
        case Enum():
            return _plain(value.value)
        case list() | tuple():
            return [_plain(item, is_micro=is_micro) for item in value]
        case dict():
            return {key: _plain(item) for key, item in value.items() if item is not None}
        case int() | float() | str():
            return value
        case datetime():
            return rfc3339_micro(value) if is_micro else rfc3339(value)
        case msgspec.Raw():
            return _plain(decode(bytes(value), object)) if bytes(value) else None
        case _:
            return to_json(value)


@cache
def _members(model: type) -> tuple[tuple[str, bool], ...]:
    """Return the names of the members, and whether each is a MicroTime."""
    if not attrs.has(model):
        raise TypeError(f"{model.__name__} has no form in JSON: use an attrs value")
    return tuple(
        (field.name, MICROSECONDS in notes_of(field.annotation)) for field in fields_of(model)
    )


def _decoder(model: type[T]) -> msgspec.json.Decoder[T]:
    decoder: msgspec.json.Decoder[T] | None = _decoders.get(model)
    if decoder is None:
        decoder = _decoders[model] = msgspec.json.Decoder(model)
    return decoder


def _decode_without_nulls(data: Data, model: type[T]) -> T:
    try:
        plain = _without_nulls(_decoder(object).decode(data))
        return _decoder(model).decode(_encoder.encode(plain))
    except _UNREADABLE as error:
        raise _malformed(data, model, error) from error


def _without_nulls(value: object) -> object:
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _malformed(data: Data, model: type, error: Exception) -> MalformedObjectError:
    fault, _, path = str(error).partition(" - at ")
    return MalformedObjectError(
        type_name=model.__name__, path=path.strip("`") or "$", fault=fault, key=_key_of(data)
    )


def _key_of(data: Data) -> Key | None:
    try:
        return _decoder(PartialObject).decode(data).metadata.key
    except _UNREADABLE:
        return None
