"""Human input becomes attrs values without any coercion, and every fault is named by its path.

A value is read and judged in one pass: its shape, its bounds and its rules. A faulty member does
not hide the faults of others. This module reads configuration files, queries and request bodies,
but not answers of the API server.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum, StrEnum
from functools import partial
from inspect import isclass
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar

import attrs

from gpuruntime.errors import GpuRuntimeError
from gpuruntime.models.definitions.schemas import Rule, Schema
from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.annotations import (
    Choice,
    Entries,
    Items,
    Model,
    Noted,
    Plain,
    fields_of,
    shape_of,
)
from gpuruntime.strict.constraints import first_fault

ValueT = TypeVar("ValueT")

NAMES: Final = {
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


@attrs.frozen(kw_only=True, slots=True)
class Problem:
    """`field` is a path such as `template.ports[2].port`, or empty for the document itself."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class StrictError(GpuRuntimeError):
    """The input is not valid; `problems` has all faults at once, in the order of the fields."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = problems


class FieldError(ValueError):
    """A model's own check raises this error to name the field at fault."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class ManyFieldsError(ValueError):
    """Several faults that one cross-field check has found."""

    def __init__(self, errors: tuple[FieldError, ...]) -> None:
        super().__init__("; ".join(str(error) for error in errors))
        self.errors = errors


def raise_all(problems: list[FieldError]) -> None:
    if problems:
        raise ManyFieldsError(tuple(problems))


class _Unsound(Enum):
    """The result of reading a value if its shape, or the shape of a part, is at fault."""

    UNSOUND = "unsound"


_UNSOUND: Final = _Unsound.UNSOUND


@attrs.frozen(slots=True)
class _Faults:
    """The faults of one document; callers see lengths first, then shapes, then the others."""

    lengths: list[Problem] = attrs.field(factory=list)
    shapes: list[Problem] = attrs.field(factory=list)
    bounds: list[Problem] = attrs.field(factory=list)

    def unsound(self, path: str, message: str) -> _Unsound:
        """Add a fault of a shape, and return what stands for the value."""
        self.shapes.append(Problem(field=path, message=message))
        return _UNSOUND


# Reads a value at a path and adds its faults; the result is _UNSOUND if a shape is at fault.
_Read: TypeAlias = Callable[[Any, str, _Faults], Any]


class StrictReader:
    """Reads values of annotated types; the functions in `parsers` read types of their own.

    Such a function raises ValueError. If `takes_null`, null is None wherever None is allowed.
    Otherwise null clears a member that may also be unset, and is a fault elsewhere.
    """

    def __init__(
        self,
        parsers: Mapping[Any, Callable[[Any], Any]] = MappingProxyType({}),
        *,
        takes_null: bool = False,
    ) -> None:
        self._parsers = parsers
        self._takes_null = takes_null
        self._models: dict[type, _Read] = {}

    def read(self, document: object, model: type[ValueT]) -> ValueT:
        """Return the value, or raise StrictError with all problems."""
        value, problems = self.judged(document, model)
        if value is None:
            raise StrictError(problems)
        return value

    def judged(
        self, document: object, model: type[ValueT]
    ) -> tuple[ValueT | None, tuple[Problem, ...]]:
        """Return the value and no problem, or None and all problems."""
        faults = _Faults()
        value = self._of_model(model)(document, "", faults)
        problems = (*faults.lengths, *faults.shapes, *faults.bounds)
        return (None if problems else value), problems

    def _of(self, annotation: Any) -> _Read:
        if annotation in self._parsers:
            return _parsed(self._parsers[annotation])
        match shape_of(annotation):
            case Noted(inner, notes):
                return _noted(self._of(inner), notes)
            case Model(model):
                return self._of_model(model)
            case Items(container, item):
                return _items(container, self._of(item))
            case Entries(value):
                return _entries(self._of(value))
            case Choice(choices, takes_none):
                inner = self._of(choices[0])
                clears = self._takes_null or len(choices) > 1
                return _optional(inner, clears=clears) if takes_none else inner
            case Plain(kind):
                return _plain(kind)

    def _of_model(self, model: type) -> _Read:
        if model not in self._models:
            members = {each.name: self._of(each.annotation) for each in fields_of(model)}
            self._models[model] = _object(model, members)
        return self._models[model]


def read(document: object, model: type[ValueT], further: Iterable[Problem] = ()) -> ValueT:
    """Return a request, or raise StrictError with all problems, also the further ones.

    Each field is named once, by its first problem, at the place of its last one.
    """
    value, found = _requests.judged(document, model)
    problems = (*further, *found)
    if value is None or problems:
        first = {problem.field: problem for problem in reversed(problems)}
        raise StrictError(tuple(reversed(first.values())))
    return value


_requests: Final = StrictReader()


def _object(model: type, members: Mapping[str, _Read]) -> _Read:
    required = frozenset(each.name for each in fields_of(model) if each.is_required)
    rules: tuple[Rule, ...] = getattr(model, "RULES", ())

    def read_object(value: Any, path: str, faults: _Faults) -> Any:
        if type(value) is not dict:
            return faults.unsound(path, _expected(dict, value))
        made: dict[str, Any] = {}
        for name, read_member in members.items():
            if name in value:
                made[name] = read_member(value[name], _join(path, name), faults)
            elif name in required:
                made[name] = faults.unsound(_join(path, name), "is required")
        for name in sorted(str(each) for each in value if each not in members):
            made[name] = faults.unsound(_join(path, name), "unknown field")
        if any(member is _UNSOUND for member in made.values()):
            return _UNSOUND
        return _ruled(_attempt(partial(model, **made), path, faults), rules, path, faults)

    return read_object


def _attempt(make: Callable[[], Any], path: str, faults: _Faults) -> Any:
    """Return what the function makes; an error of its own checks is a fault of the shape."""
    try:
        return make()
    except ManyFieldsError as error:
        for each in error.errors:
            faults.unsound(_join(path, each.field), str(each))
    except FieldError as error:
        faults.unsound(_join(path, error.field), str(error))
    except (ValueError, OverflowError) as error:
        faults.unsound(path, str(error))
    return _UNSOUND


def _noted(read_inner: _Read, notes: tuple[Any, ...]) -> _Read:
    """Judge a value as it was sent by its bounds, and as it was read by its rules."""
    rules = tuple(note for note in notes if isinstance(note, Rule))
    lengths = [note.maxItems for note in notes if isinstance(note, Schema) and note.maxItems]

    def read_noted(value: Any, path: str, faults: _Faults) -> Any:
        # Items past the bound are not read, as a caller could make reading them arbitrarily slow.
        if lengths and isinstance(value, list) and len(value) > lengths[0]:
            message = f"must have at most {lengths[0]} items, not {len(value)}"
            faults.lengths.append(Problem(field=path, message=message))
            value = value[: lengths[0]]
        if fault := first_fault(value, notes):
            below, message = fault
            faults.bounds.append(Problem(field=path + below, message=message))
        return _ruled(read_inner(value, path, faults), rules, path, faults)

    return read_noted


def _ruled(value: Any, rules: tuple[Rule, ...], path: str, faults: _Faults) -> Any:
    """Return the value; rules judge it only if it is sound, with its defaults filled in."""
    if rules and value is not _UNSOUND:
        is_list = isinstance(value, tuple)
        plain = [*map(codec.to_json, value)] if is_list else codec.to_json(value)
        for rule in rules:
            if not rule.holds(plain, None):
                field = _join(path, rule.field.removeprefix("."))
                faults.bounds.append(Problem(field=field, message=rule.message))
    return value


def _items(container: type, read_item: _Read) -> _Read:
    def read_items(value: Any, path: str, faults: _Faults) -> Any:
        if type(value) is not list:
            return faults.unsound(path, _expected(list, value))
        made = [read_item(item, f"{path}[{index}]", faults) for index, item in enumerate(value)]
        return _UNSOUND if any(item is _UNSOUND for item in made) else container(made)

    return read_items


def _entries(read_member: _Read) -> _Read:
    def read_entries(value: Any, path: str, faults: _Faults) -> Any:
        if type(value) is not dict:
            return faults.unsound(path, _expected(dict, value))
        made = {}
        for key, member in value.items():
            below = _join(path, key) if isinstance(key, str) else f"{path}[{key}]"
            made[key] = read_member(member, below, faults)
            if type(key) is not str and made[key] is not _UNSOUND:
                made[key] = faults.unsound(below, _expected(str, key))
        return _UNSOUND if any(each is _UNSOUND for each in made.values()) else made

    return read_entries


def _optional(read_inner: _Read, *, clears: bool) -> _Read:
    def read_optional(value: Any, path: str, faults: _Faults) -> Any:
        if value is not None:
            return read_inner(value, path, faults)
        if not clears:
            message = "must not be null: leave it out"
            faults.bounds.append(Problem(field=path, message=message))
        return None

    return read_optional


def _parsed(parse: Callable[[Any], Any]) -> _Read:
    return lambda value, path, faults: _attempt(partial(parse, value), path, faults)


def _plain(kind: Any) -> _Read:
    if kind is Any:
        return lambda value, *_: value
    if kind is float:
        return _parsed(_number)
    if kind in (str, int, bool):
        return _parsed(partial(_exact, kind))
    if isclass(kind) and issubclass(kind, StrEnum):
        return _parsed(partial(_member, kind))
    raise TypeError(f"{kind} cannot be read strictly: use an attrs value or a scalar")


def _exact(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise ValueError(_expected(kind, value))
    return value


def _number(value: Any) -> float:
    if type(value) not in (int, float):
        raise ValueError(_expected(float, value))
    return float(value)


def _member(kind: type[StrEnum], value: Any) -> StrEnum:
    members = [member.value for member in kind]
    if type(value) is not str or value not in members:
        raise ValueError(f"must be one of {', '.join(members)}")
    return kind(value)


def _expected(kind: type, value: object) -> str:
    return f"must be {NAMES[kind]}, not {NAMES.get(type(value), type(value).__name__)}"


def _join(path: str, name: str) -> str:
    if not path or not name or name.startswith("["):
        return path + name
    return f"{path}.{name}"
