"""JSON documents as the server handles them: decoded, compared, encoded once per change."""

from typing import Any, TypeAlias

import msgspec

# A decoded document has whatever members its sender gave it: the schemas judge them, not mypy.
Document: TypeAlias = dict[str, Any]

_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()
_sorted = msgspec.json.Encoder(order="sorted")


def decode(data: bytes) -> Any:
    """Raises ValueError (msgspec's and Unicode's errors are such) or RecursionError."""
    return _decoder.decode(data)


def encode(document: Document) -> bytes:
    return _encoder.encode(document)


def encode_sorted(document: Document) -> bytes:
    """As Go writes a map: for the few documents that messages quote."""
    return _sorted.encode(document)


def encode_value(value: Any) -> bytes:
    return _encoder.encode(value)


def is_same(document: Any, other: Any) -> bool:
    """Python holds true and 1 for equal; JSON does not."""
    return document == other and (
        _encoder.encode(document) == _encoder.encode(other)
        or _sorted.encode(document) == _sorted.encode(other)
    )


def copy(value: Any) -> Any:
    """Plain JSON has no cycles and no other types, which copy.deepcopy cannot know."""
    if type(value) is dict:
        return {name: copy(item) for name, item in value.items()}
    if type(value) is list:
        return [copy(item) for item in value]
    return value


def without_nulls(value: Any) -> Any:
    """What Kubernetes' decoders make of a null member: nothing."""
    if type(value) is dict:
        return {name: without_nulls(item) for name, item in value.items() if item is not None}
    if type(value) is list:
        return [without_nulls(item) for item in value]
    return value
