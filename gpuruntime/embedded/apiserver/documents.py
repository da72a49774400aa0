"""JSON documents of the server: decoded, compared, copied and encoded."""

from typing import Any, TypeAlias

import msgspec

# Senders choose a document's members, so the schemas check them, not mypy.
Document: TypeAlias = dict[str, Any]

_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()
_sorted = msgspec.json.Encoder(order="sorted")


def decode(data: bytes) -> Any:
    """Decode JSON; raise ValueError (msgspec and Unicode errors are such) or RecursionError."""
    return _decoder.decode(data)


def encode(document: Document) -> bytes:
    return _encoder.encode(document)


def encode_sorted(document: Document) -> bytes:
    """Encode with sorted names, as Go does, for the few documents that messages quote."""
    return _sorted.encode(document)


def encode_value(value: Any) -> bytes:
    return _encoder.encode(value)


def is_same(document: Any, other: Any) -> bool:
    """Return whether two documents are equal in JSON: Python also takes true and 1 for equal."""
    return document == other and (
        _encoder.encode(document) == _encoder.encode(other)
        or _sorted.encode(document) == _sorted.encode(other)
    )


def copy(value: Any) -> Any:
    """Copy plain JSON; without cycles and other types it is faster than copy.deepcopy."""
    if type(value) is dict:
        return {name: copy(item) for name, item in value.items()}
    if type(value) is list:
        return [copy(item) for item in value]
    return value


def without_nulls(value: Any) -> Any:
    """Return a copy without null members, as Kubernetes' decoders read it."""
    if type(value) is dict:
        return {name: without_nulls(item) for name, item in value.items() if item is not None}
    if type(value) is list:
        return [without_nulls(item) for item in value]
    return value
