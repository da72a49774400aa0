"""What a member of an attrs class is by default, whichever way it was declared."""

from typing import Any

import attrs


def default_of(field: "attrs.Attribute[Any]") -> Any:
    """For comparing only: what a factory makes is made anew each time."""
    default: Any = field.default
    return default.factory() if hasattr(default, "factory") else default
