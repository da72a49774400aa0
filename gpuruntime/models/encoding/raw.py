"""Parts of an object that are only compared stay the bytes that they came as."""

from typing import Final

import msgspec

EMPTY: Final = msgspec.Raw(b"{}")


def keep(value: object, name: str) -> None:
    """For a model's `__attrs_post_init__`: own the bytes, else one part holds a whole page."""
    object.__setattr__(value, name, getattr(value, name).copy())
