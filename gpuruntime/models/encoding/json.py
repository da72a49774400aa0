"""Plain JSON as types, and JSON that stays the bytes it came as."""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias, Union

import msgspec

JsonValue: TypeAlias = Union[
    bool, int, float, str, "Sequence[JsonValue]", "Mapping[str, JsonValue]", None
]
JsonObject: TypeAlias = dict[str, JsonValue]

EMPTY_OBJECT: Final = msgspec.Raw(b"{}")


def keep_bytes(value: object, name: str) -> None:
    """For a model's `__attrs_post_init__`: own the bytes, else one part holds a whole page."""
    object.__setattr__(value, name, getattr(value, name).copy())
