"""Query parameters as values: as strict as bodies, with every bad parameter named at once."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, Generic, TypeVar

from multidict import MultiMapping
from yarl import URL

from gpuruntime.models.encoding.annotations import Choice, Noted, fields_of, shape_of
from gpuruntime.strict.structure import Problem, read

QueryT = TypeVar("QueryT")

_WHOLE: Final = re.compile(r"0|-?[1-9][0-9]{0,17}")
_SWITCH: Final = {"true": True, "false": False}


class QueryReader(Generic[QueryT]):
    """Reads the query strings of one route, and caches them, as callers mostly repeat theirs."""

    def __init__(self, model: type[QueryT]) -> None:
        self._model: type[QueryT] = model
        kind: type = model
        self._kinds = {each.name: _plain_type(each.annotation) for each in fields_of(kind)}
        self.read = lru_cache(maxsize=256)(self._read)

    def _read(self, text: str) -> QueryT:
        """Return the query's value, or raise StrictError."""
        given = URL.build(path="/", query_string=text, encoded=True).query
        problems = list(_problems(given, self._kinds))
        bad = {problem.field for problem in problems}
        values = {
            name: _value(given[name], kind)
            for name, kind in self._kinds.items()
            if name in given and name not in bad
        }
        return read(values, self._model, problems)


def _plain_type(annotation: Any) -> Any:
    """Return the type without its notes, and without None."""
    match shape_of(annotation):
        case Noted(inner, _):
            return _plain_type(inner)
        case Choice(choices, _):
            return _plain_type(choices[0])
        case _:
            return annotation


def _problems(given: MultiMapping[str], kinds: Mapping[str, Any]) -> Iterator[Problem]:
    for name in dict.fromkeys(given):
        values = given.getall(name)
        if name not in kinds:
            yield Problem(field=name, message=_unknown(kinds))
        elif len(values) > 1:
            yield Problem(field=name, message="is given more than once")
        elif not values[0]:
            yield Problem(field=name, message="is empty: leave it out")
        elif kinds[name] is int and not _WHOLE.fullmatch(values[0]):
            yield Problem(field=name, message="must be a whole number")
        elif kinds[name] is bool and values[0] not in _SWITCH:
            yield Problem(field=name, message="must be true or false")


def _unknown(kinds: Iterable[str]) -> str:
    known = ", ".join(kinds)
    return (
        f"unknown parameter: known are {known}"
        if known
        else "unknown parameter: this route has none"
    )


def _value(text: str, kind: Any) -> object:
    if kind is int:
        return int(text)
    return _SWITCH[text] if kind is bool else text
