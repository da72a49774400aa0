"""Plain JSON as types: what a body is before it becomes a value, and after."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias, Union

JsonValue: TypeAlias = Union[
    bool, int, float, str, "Sequence[JsonValue]", "Mapping[str, JsonValue]", None
]
JsonObject: TypeAlias = dict[str, JsonValue]
