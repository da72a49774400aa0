"""Requests are read in one go: their shape, their bounds and their rules are checked together.

A caller's document must satisfy the same schemas and rules as our kinds, and the `Check`s that
apply only to callers. A faulty member does not hide the faults of others.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import attrs

from gpuruntime.models.definitions.schemas import Check, Rule, Schema
from gpuruntime.models.definitions.texts import (
    Argument,
    ClassName,
    EnvName,
    Image,
    LabelValue,
    Name,
    PortName,
    RequestID,
    SpecName,
)
from gpuruntime.models.encoding import codec
from gpuruntime.strict.structure import Problem, StrictError, Structurer

ValueT = TypeVar("ValueT")


def _pattern_of(text: Any) -> str:
    return next(note.pattern for note in get_args(text) if isinstance(note, Schema))


_IN_WORDS: Final = {
    _pattern_of(Name): "must be a DNS label: lower case letters, digits and '-', "
    "a letter or digit at both ends",
    _pattern_of(SpecName): "must be lower case letters, digits, '-' and '.', "
    "a letter or digit at both ends",
    _pattern_of(LabelValue): "must be letters, digits, '-', '_' and '.', "
    "a letter or digit at both ends",
    _pattern_of(PortName): "must be lower case letters, digits and single '-', "
    "with a letter, and none but letters and digits at the ends",
    _pattern_of(EnvName): "must be letters, digits, '_', '-' and '.', not a digit in front",
    _pattern_of(ClassName): "must be the name of a class: DNS labels with a '.' between them",
    _pattern_of(Image): "must be printable ASCII without spaces",
    _pattern_of(Argument): "must have no NUL character: no process could be given it",
    _pattern_of(RequestID): "must be lower case letters, digits, '_' and '-'",
}


def read(
    document: object,
    model: type[ValueT],
    structurer: Structurer,
    further: Iterable[Problem] = (),
) -> ValueT:
    """Return the value, or raise StrictError with all problems, also the further ones.

    Each field is named once.
    """
    problems = [*further]
    value: ValueT | None = None
    bounded = _cut_object(model, document, "", problems)
    try:
        value = structurer.structure(bounded, model)
    except StrictError as error:
        problems += error.problems
    judging = _Judging(structurer, is_read=value is not None)
    problems += _object(model, judging, bounded, value, "")
    if problems or value is None:
        first = {problem.field: problem for problem in reversed(problems)}
        raise StrictError(tuple(reversed(first.values())))
    return value


# A Cut returns a value without the items past a list's bound, since a caller could make checking
# them arbitrarily slow. It receives the value, its path, and the list to which it adds problems.
Cut: TypeAlias = Callable[[Any, str, list[Problem]], Any]


def _cut_of(annotation: Any) -> Cut | None:
    """Return the Cut of a type, or None if the type has no bounded list."""
    if attrs.has(annotation):
        return partial(_cut_object, annotation) if _cuts(annotation) else None
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        cut = _cut_of(arguments[0])
        most = next((note.maxItems for note in arguments[1:] if isinstance(note, Schema)), None)
        return cut if most is None else partial(_cut_list, most, cut)
    if origin is tuple:
        cut = _cut_of(arguments[0])
        return partial(_cut_items, cut) if cut else None
    return _cut_of(arguments[0]) if origin in (Union, UnionType) else None


def _cut_object(model: type, value: Any, path: str, problems: list[Problem]) -> Any:
    if not isinstance(value, dict):
        return value
    cuts = _cuts(model)
    return {
        name: cuts[name](member, _join(path, name), problems) if name in cuts else member
        for name, member in value.items()
    }


def _cut_list(most: int, cut: Cut | None, value: Any, path: str, problems: list[Problem]) -> Any:
    if isinstance(value, list) and len(value) > most:
        message = f"must have at most {most} items, not {len(value)}"
        problems.append(Problem(field=path, message=message))
        value = value[:most]
    return cut(value, path, problems) if cut else value


def _cut_items(cut: Cut, value: Any, path: str, problems: list[Problem]) -> Any:
    if not isinstance(value, list):
        return value
    return [cut(item, f"{path}[{index}]", problems) for index, item in enumerate(value)]


@attrs.frozen(slots=True)
class _Judging:
    """The state of checking a document; once it is read, its parts are not read again."""

    structurer: Structurer
    is_read: bool


# A Judge yields violations of bounds and rules. It receives a value as it was sent, the same value
# as it was read, and its path. Members of a wrong type are skipped.
Judge: TypeAlias = Callable[[_Judging, Any, Any, str], Iterator[Problem]]


def _judge_of(annotation: Any) -> Judge | None:
    """Return the Judge of a type, or None if the type itself says everything."""
    if attrs.has(annotation):
        return partial(_object, annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return partial(_noted, arguments[0], arguments[1:], _judge_of(arguments[0]))
    if origin is tuple:
        judge = _judge_of(arguments[0])
        return partial(_items, judge) if judge else None
    if origin in (Union, UnionType):
        is_always_said = arguments[1:] == (NoneType,)
        return partial(_optional, _judge_of(arguments[0]), is_always_said)
    return None


def _object(
    model: type, judging: _Judging, value: Any, read_value: Any, path: str
) -> Iterator[Problem]:
    if not isinstance(value, dict):
        return
    for name, judge in _judges(model):
        if name in value:
            member = getattr(read_value, name) if judging.is_read else None
            yield from judge(judging, value[name], member, _join(path, name))
    yield from _ruled(model, getattr(model, "RULES", ()), judging, value, read_value, path)


def _items(
    judge: Judge, judging: _Judging, value: Any, read_value: Any, path: str
) -> Iterator[Problem]:
    if not isinstance(value, list):
        return
    for index, item in enumerate(value):
        read_item = read_value[index] if judging.is_read else None
        yield from judge(judging, item, read_item, f"{path}[{index}]")


def _optional(
    judge: Judge | None,
    is_always_said: bool,
    judging: _Judging,
    value: Any,
    read_value: Any,
    path: str,
) -> Iterator[Problem]:
    """Null clears a field if leaving it out has another meaning; otherwise null is rejected."""
    if value is not None:
        yield from judge(judging, value, read_value, path) if judge else ()
    elif is_always_said:
        yield Problem(field=path, message="must not be null: leave it out")


def _noted(
    inner: Any,
    notes: tuple[Any, ...],
    judge: Judge | None,
    judging: _Judging,
    value: Any,
    read_value: Any,
    path: str,
) -> Iterator[Problem]:
    for fault in _first_fault(value, notes):
        yield Problem(field=path + fault.field, message=str(fault.message))
    if judge:
        yield from judge(judging, value, read_value, path)
    rules = tuple(note for note in notes if isinstance(note, Rule))
    yield from _ruled(inner, rules, judging, value, read_value, path)


def _ruled(
    kind: Any,
    rules: tuple[Rule, ...],
    judging: _Judging,
    value: Any,
    read_value: Any,
    path: str,
) -> Iterator[Problem]:
    """Evaluate rules only on sound values, with their defaults filled in."""
    if not rules:
        return
    try:
        sound = read_value if judging.is_read else judging.structurer.structure(value, kind)
    except StrictError:
        return
    plain = _plain(sound)
    for rule in rules:
        if not rule.holds(plain, None):
            field = _join(path, rule.field.removeprefix("."))
            yield Problem(field=field, message=rule.message)


def _first_fault(value: object, notes: tuple[Any, ...]) -> Iterator[Problem]:
    """Yield only the first fault of a field, since others often follow from it."""
    for note in notes:
        message = ""
        if isinstance(note, Schema):
            message = next(_words(value, note), "")
        elif isinstance(note, Check):
            message = note.fault_of(value)
        if message:
            yield Problem(field=getattr(note, "field", ""), message=message)
            return


def _words(value: object, schema: Schema) -> Iterator[str]:
    match value:
        case int() if not isinstance(value, bool):
            yield from _bounds(value, schema)
        case str():
            yield from _text(value, schema)
        case _:
            return


def _bounds(value: int, schema: Schema) -> Iterator[str]:
    if schema.minimum is not None and value < schema.minimum:
        yield f"must be at least {schema.minimum}"
    if schema.maximum is not None and value > schema.maximum:
        yield f"must be at most {schema.maximum}"


def _text(value: str, schema: Schema) -> Iterator[str]:
    if schema.minLength is not None and len(value) < schema.minLength:
        yield "must not be empty"
    if schema.maxLength is not None and len(value) > schema.maxLength:
        yield f"must be at most {schema.maxLength} characters, not {len(value)}"
    if schema.pattern and not re.fullmatch(schema.pattern, value):
        yield _IN_WORDS.get(schema.pattern, f"must match {schema.pattern}")
    if schema.enum and value not in schema.enum:
        yield f"must be one of {', '.join(schema.enum)}"


def _plain(value: object) -> Any:
    if isinstance(value, tuple):
        return [codec.to_json(item) for item in value]
    return codec.to_json(value)


@cache
def _judges(model: type) -> tuple[tuple[str, Judge], ...]:
    found = ((name, _judge_of(hint)) for name, hint in _hints(model).items())
    return tuple((name, judge) for name, judge in found if judge)


@cache
def _cuts(model: type) -> dict[str, Cut]:
    found = ((name, _cut_of(hint)) for name, hint in _hints(model).items())
    return {name: cut for name, cut in found if cut}


@cache
def _hints(model: type) -> dict[str, Any]:
    hints = get_type_hints(model, include_extras=True)
    return {field.name: hints[field.name] for field in attrs.fields(model)}


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path and name else path + name
