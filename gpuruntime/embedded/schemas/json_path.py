"""JSONPath of a definition's columns: members, indexes, and items by a member's value."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

_STEP: Final = re.compile(
    r"""\.(?P<name>(?:[^.\[\\]|\\.)+)
      | \[['"](?P<quoted>[^'"]+)['"]\]
      | \[(?P<index>-?[0-9]+)\]
      | \[\?\(@\.(?P<key>[^=!\s]+)\s*==\s*['"](?P<value>[^'"]*)['"]\)\]
      | (?P<all>\[\*\])""",
    re.VERBOSE,
)

Step = Callable[[list[Any]], list[Any]]


@lru_cache(maxsize=256)
def compiled(path: str) -> tuple[Step, ...]:
    """Return the steps of the path; raise ValueError if it cannot be parsed."""
    steps: list[Step] = []
    position = 0
    while position < len(path):
        found = _STEP.match(path, position)
        if found is None:
            raise ValueError(f"JSONPath {path!r} cannot be read from {path[position:]!r} on")
        steps.append(_step(found))
        position = found.end()
    return tuple(steps)


def find(document: Any, path: str) -> Any:
    """Return the first value at the path, or None."""
    values = [document]
    for step in compiled(path):
        values = step(values)
    return values[0] if values else None


def _step(found: re.Match[str]) -> Step:
    if found["all"]:
        return lambda values: [item for each in values if isinstance(each, list) for item in each]
    if found["index"]:
        index = int(found["index"])
        return lambda values: [
            each[index]
            for each in values
            if isinstance(each, list) and -len(each) <= index < len(each)
        ]
    if found["key"]:
        key, value = found["key"], found["value"]
        return lambda values: [
            item
            for each in values
            if isinstance(each, list)
            for item in each
            if isinstance(item, dict) and item.get(key) == value
        ]
    name = found["quoted"] or re.sub(r"\\(.)", r"\1", found["name"])
    return lambda values: [
        each[name] for each in values if isinstance(each, dict) and name in each
    ]
