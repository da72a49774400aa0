"""Strict JSON: one UTF-8 document, without repeated keys and without extensions of JSON.

A fault inside a document is named by its path and does not hide other faults, so the reader
returns the document with its problems. Only input that is not JSON at all raises an error.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

import attrs

from gpuruntime.strict.structure import Problem, StrictError

ValueT = TypeVar("ValueT")

MOST_LEVELS: Final = 64
# No number that we accept has more digits, and Python is slow to parse thousands of them.
_MOST_DIGITS = 20
_TOO_DEEP = f"is nested deeper than {MOST_LEVELS} levels"


@attrs.frozen(kw_only=True, slots=True)
class Document:
    """Plain JSON, and the problems that a strict reader finds in it."""

    value: object
    problems: tuple[Problem, ...] = ()

    def parsed(self, parse: Callable[[object], ValueT]) -> ValueT:
        """Return the parsed value, or raise StrictError with all problems together."""
        try:
            value = parse(self.value)
        except StrictError as error:
            raise StrictError(_each_once(self.problems + error.problems)) from error
        if self.problems:
            raise StrictError(self.problems)
        return value


def read_document(body: bytes) -> Document:
    """Read the body; raise StrictError if it is not a single JSON document."""
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise _not_json(f"the body is not UTF-8: byte {error.start} is out of place") from error
    if not text.strip():
        raise _not_json("the body is empty: send one JSON document")
    reader = _Reader()
    try:
        value = reader.read(text)
    except json.JSONDecodeError as error:
        raise _not_json(f"the body is not one JSON document: {_fault_of(error)}") from error
    except RecursionError as error:
        raise _not_json(_TOO_DEEP) from error
    return Document(value=value, problems=_each_once(tuple(reader.problems(value, "", 1))))


class _Reader:
    """Remembers the keys that an object repeats, since a dict cannot."""

    def __init__(self) -> None:
        # Each entry keeps its object alive, so that no id is used twice.
        self._repeated: dict[int, tuple[object, list[str]]] = {}

    def read(self, text: str) -> object:
        return json.loads(
            text, object_pairs_hook=self._object, parse_int=_integer, parse_constant=float
        )

    def problems(self, value: object, path: str, level: int) -> Iterator[Problem]:
        if isinstance(value, dict | list) and level > MOST_LEVELS:
            yield Problem(field=path, message=_TOO_DEEP)
        elif isinstance(value, dict):
            yield from self._in_object(value, path, level)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                yield from self.problems(item, f"{path}[{index}]", level + 1)
        elif isinstance(value, str) and not _is_text(value):
            yield Problem(field=path, message="has half of a surrogate pair")
        elif isinstance(value, float) and not math.isfinite(value):
            yield Problem(field=path, message="must be a finite number of at most 20 digits")

    def _in_object(self, value: dict[str, Any], path: str, level: int) -> Iterator[Problem]:
        _, repeated = self._repeated.get(id(value), (None, []))
        for name, member in value.items():
            below = f"{path}.{name}" if path else name
            if name in repeated:
                yield Problem(field=below, message="occurs more than once")
            if not _is_text(name):
                yield Problem(field=below, message="has half of a surrogate pair in its name")
            yield from self.problems(member, below, level + 1)

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) < len(pairs):
            counted = Counter(name for name, _ in pairs)
            self._repeated[id(members)] = (
                members,
                [name for name in counted if counted[name] > 1],
            )
        return members


def _integer(text: str) -> int | float:
    return int(text) if len(text) <= _MOST_DIGITS else math.inf


def _is_text(text: str) -> bool:
    """Return whether UTF-8 can encode the text; half of a surrogate pair cannot be encoded."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _fault_of(error: json.JSONDecodeError) -> str:
    return f"{error.msg[0].lower()}{error.msg[1:]} at line {error.lineno} column {error.colno}"


def _not_json(message: str) -> StrictError:
    return StrictError((Problem(field="", message=message),))


def _each_once(problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
    """Keep only the first fault of each field, since others often follow from it."""
    first: dict[str, Problem] = {}
    for problem in problems:
        first.setdefault(problem.field, problem)
    return tuple(first.values())
