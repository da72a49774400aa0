"""Query parameters as values: as strict as bodies, with every bad parameter named at once."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Generic,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import attrs
from multidict import MultiMapping
from yarl import URL

from gpuruntime.strict.constraints import read
from gpuruntime.strict.structure import Problem, Structurer

QueryT = TypeVar("QueryT")

_WHOLE: Final = re.compile(r"0|-?[1-9][0-9]{0,17}")
_SWITCH: Final = {"true": True, "false": False}
_structurer = Structurer()


class QueryReader(Generic[QueryT]):
    """Reads the query strings of one route, and caches them, as callers mostly repeat theirs."""

    def __init__(self, model: type[QueryT]) -> None:
        self._model = model
        self._kinds = {name: _plain_type(hint) for name, hint in hints_of(model).items()}
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
        return read(values, self._model, _structurer, problems)


def hints_of(model: type) -> Mapping[str, Any]:
    hints = get_type_hints(model, include_extras=True)
    return {field.name: hints[field.name] for field in attrs.fields(model)}


def _plain_type(annotation: Any) -> Any:
    """Return the type inside Annotated and Optional."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _plain_type(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return _plain_type(next(each for each in get_args(annotation) if each is not NoneType))
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
