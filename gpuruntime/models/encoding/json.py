"""Types of plain JSON, and JSON that is kept as the bytes it came as."""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias, Union

import msgspec

JsonValue: TypeAlias = Union[
    bool, int, float, str, "Sequence[JsonValue]", "Mapping[str, JsonValue]", None
]
JsonObject: TypeAlias = dict[str, JsonValue]

EMPTY_OBJECT: Final = msgspec.Raw(b"{}")


def keep_bytes(value: object, name: str) -> None:
    """Copy a model's bytes in `__attrs_post_init__`; a slice would keep its whole page."""
    object.__setattr__(value, name, getattr(value, name).copy())
