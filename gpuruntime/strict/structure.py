"""Human input becomes attrs values without any coercion, and every fault is named by its path.

A value is read and judged in one pass: its shape, its bounds and its rules. A faulty member does
not hide the faults of others. This module reads configuration files, queries and request bodies,
but not answers of the API server.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum, StrEnum
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar, assert_never

import attrs
import cattrs

from gpuruntime.errors import GpuRuntimeError
from gpuruntime.models.definitions.schemas import Nullable, Rule, Schema
from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.annotations import (
    Choice,
    Entries,
    Items,
    Model,
    Noted,
    Plain,
    Shape,
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


@attrs.frozen(slots=True)
class _Part:
    """A part of a document, its path, and the faults of the whole document."""

    value: Any
    path: str
    faults: _Faults

    def member(self, name: str) -> "_Part":
        return _Part(self.value[name], _join(self.path, name), self.faults)

    def unsound(self, message: str, field: str = "") -> _Unsound:
        """Add a fault of a shape, and return what stands for the value."""
        self.faults.shapes.append(Problem(field=_join(self.path, field), message=message))
        return _UNSOUND

    def out_of_bounds(self, message: str, field: str = "") -> None:
        """Add a fault of a bound, a check or a rule; the last two name a field by `.name`."""
        path = _join(self.path, field.removeprefix("."))
        self.faults.bounds.append(Problem(field=path, message=message))


# Reads a part and adds its faults; the result is _UNSOUND if a shape is at fault. A hook of cattrs
# that raised instead would hide the faults of the parts beside it.
_Read: TypeAlias = Callable[[_Part], Any]


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
        self._takes_null = takes_null
        self._converter = converter = cattrs.Converter()
        converter.register_structure_hook_factory(lambda _: True, self._hook)
        for kind, check in _SCALARS.items():
            converter.register_structure_hook(kind, _checked(check))
        for kind, parse in parsers.items():
            converter.register_structure_hook(kind, _checked(_ignoring_kind(parse)))

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
        value = self._converter.structure(_Part(document, "", faults), model)
        problems = (*faults.lengths, *faults.shapes, *faults.bounds)
        return (None if problems else value), problems

    def _hook(self, annotation: Any) -> Callable[[_Part, Any], Any]:
        """Return the hook of a type that is neither a scalar nor parsed; cattrs keeps it."""
        read = self._read(shape_of(annotation))
        return lambda part, _: read(part)

    def _read(self, shape: Shape) -> _Read:
        match shape:
            case Noted(inner, notes):
                read_inner = self._of(inner)
                if Nullable() in notes:
                    read_inner = _optional(read_inner, clears=True)
                return _noted(read_inner, notes)
            case Model(model):
                members = {each.name: self._of(each.annotation) for each in fields_of(model)}
                return _object(model, members)
            case Items(container, item):
                return _items(container, self._of(item))
            case Entries(value):
                return _entries(self._of(value))
            case Choice(choices, takes_none):
                inner = self._of(choices[0])
                clears = self._takes_null or len(choices) > 1
                return _optional(inner, clears=clears) if takes_none else inner
            case Plain(kind) if kind is Any:
                return lambda part: part.value
            case Plain(kind):
                raise TypeError(f"{kind} cannot be read strictly: use an attrs value or a scalar")
            case _:
                assert_never(shape)

    def _of(self, annotation: Any) -> _Read:
        hook = self._converter.get_structure_hook(annotation)
        return lambda part: hook(part, annotation)


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


def _object(model: type, members: Mapping[str, _Read]) -> _Read:
    required = frozenset(each.name for each in fields_of(model) if each.is_required)
    rules: tuple[Rule, ...] = getattr(model, "RULES", ())
    known = {*members, *getattr(model, "SHOWN", ())}

    def read_object(part: _Part) -> Any:
        if type(part.value) is not dict:
            return part.unsound(_expected(dict, part.value))
        made: dict[str, Any] = {}
        for name, read_member in members.items():
            if name in part.value:
                made[name] = read_member(part.member(name))
            elif name in required:
                made[name] = part.unsound("is required", name)
        for name in sorted(str(each) for each in part.value if each not in known):
            made[name] = part.unsound("unknown field", name)
        if any(member is _UNSOUND for member in made.values()):
            return _UNSOUND
        return _ruled(_attempt(partial(model, **made), part), rules, part)

    return read_object


def _attempt(make: Callable[[], Any], part: _Part) -> Any:
    """Return what the function makes; an error of its own checks is a fault of the shape."""
    try:
        return make()
    except ManyFieldsError as error:
        for each in error.errors:
            part.unsound(str(each), each.field)
    except FieldError as error:
        part.unsound(str(error), error.field)
    except (ValueError, OverflowError) as error:
        part.unsound(str(error))
    return _UNSOUND


def _noted(read_inner: _Read, notes: tuple[Any, ...]) -> _Read:
    """Judge a value as it was sent by its bounds, and as it was read by its rules."""
    rules = tuple(note for note in notes if isinstance(note, Rule))
    lengths = [note.maxItems for note in notes if isinstance(note, Schema) and note.maxItems]

    def read_noted(part: _Part) -> Any:
        # Items past the bound are not read, as a caller could make reading them arbitrarily slow.
        if lengths and isinstance(part.value, list) and len(part.value) > lengths[0]:
            message = f"must have at most {lengths[0]} items, not {len(part.value)}"
            part.faults.lengths.append(Problem(field=part.path, message=message))
            part = attrs.evolve(part, value=part.value[: lengths[0]])
        if fault := first_fault(part.value, notes):
            below, message = fault
            part.out_of_bounds(message, below)
        return _ruled(read_inner(part), rules, part)

    return read_noted


def _ruled(value: Any, rules: tuple[Rule, ...], part: _Part) -> Any:
    """Return the value; rules judge it only if it is sound, with its defaults filled in."""
    if rules and value is not _UNSOUND:
        is_list = isinstance(value, tuple)
        plain = [*map(codec.to_json, value)] if is_list else codec.to_json(value)
        for rule in rules:
            if not rule.holds(plain, None):
                part.out_of_bounds(rule.message, rule.field)
    return value


def _items(container: type, read_item: _Read) -> _Read:
    def read_items(part: _Part) -> Any:
        if type(part.value) is not list:
            return part.unsound(_expected(list, part.value))
        made = [
            read_item(_Part(item, f"{part.path}[{index}]", part.faults))
            for index, item in enumerate(part.value)
        ]
        return _UNSOUND if any(item is _UNSOUND for item in made) else container(made)

    return read_items


def _entries(read_member: _Read) -> _Read:
    def read_entries(part: _Part) -> Any:
        if type(part.value) is not dict:
            return part.unsound(_expected(dict, part.value))
        made = {}
        for key, value in part.value.items():
            path = _join(part.path, key) if isinstance(key, str) else f"{part.path}[{key}]"
            member = _Part(value, path, part.faults)
            made[key] = read_member(member)
            if type(key) is not str and made[key] is not _UNSOUND:
                made[key] = member.unsound(_expected(str, key))
        return _UNSOUND if any(each is _UNSOUND for each in made.values()) else made

    return read_entries


def _optional(read_inner: _Read, *, clears: bool) -> _Read:
    def read_optional(part: _Part) -> Any:
        if part.value is not None:
            return read_inner(part)
        if not clears:
            part.out_of_bounds("must not be null: leave it out")
        return None

    return read_optional


def _checked(check: Callable[[Any, Any], Any]) -> Callable[[_Part, Any], Any]:
    """Return a hook of cattrs for a type whose values have no parts."""
    return lambda part, kind: _attempt(partial(check, part.value, kind), part)


def _ignoring_kind(parse: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda value, _: parse(value)


def _exact(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise ValueError(_expected(kind, value))
    return value


def _number(value: Any, _: type) -> float:
    if type(value) not in (int, float):
        raise ValueError(_expected(float, value))
    return float(value)


def _member(value: Any, kind: type[StrEnum]) -> StrEnum:
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


# cattrs finds the hook of the nearest base class; a StrEnum is a str as well.
_SCALARS: Final[Mapping[type, Callable[[Any, Any], Any]]] = {
    str: _exact,
    int: _exact,
    bool: _exact,
    float: _number,
    StrEnum: _member,
}
_requests: Final = StrictReader()
