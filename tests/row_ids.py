"""Ids of table rows, for values that pytest would number instead of naming."""

import json
from collections.abc import Mapping

LONGEST = 60


def in_words(value: object) -> str | None:
    """Return a short id: JSON of documents, the text of bytes, the words of an error.

    Other values are left to pytest.
    """
    match value:
        case str():
            words = value
        case bytes():
            words = value.decode(errors="backslashreplace")
        case Mapping() | list() | tuple():
            words = json.dumps(value, default=str)
        case Exception():
            words = f"{type(value).__name__} {value}".strip()
        case _:
            return None
    return words if len(words) <= LONGEST else f"{words[:LONGEST]}..."
