"""Request documents into values: shape, bounds and rules are judged in one go.

A caller's document is held to the same words and rules as the schemas of our kinds, and to the
`Check`s that only a caller has to keep. A member that is wrong does not hide the others.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

import attrs

from gpuruntime.models import codec
from gpuruntime.models.schemas import Rule, Schema
from gpuruntime.models.strict import Problem, StrictError, Structurer
from gpuruntime.models.texts import (
    Argument,
    EnvName,
    Image,
    LabelValue,
    Name,
    PortName,
    RequestID,
    SpecName,
)

ValueT = TypeVar("ValueT")


@attrs.frozen(slots=True)
class Check:
    """Beside a Schema in an annotation: `fault_of` tells what is wrong, or says nothing."""

    fault_of: Callable[[Any], str]
    field: str = ""


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
    """Raises StrictError with every problem, further ones too; each field is named once."""
    problems = [*further]
    value: ValueT | None = None
    bounded = _shortened(document, model, "", problems)
    try:
        value = structurer.structure(bounded, model)
    except StrictError as error:
        problems += error.problems
    problems += _Judge(structurer).judge(bounded, model, "")
    if problems or value is None:
        first = {problem.field: problem for problem in reversed(problems)}
        raise StrictError(tuple(reversed(first.values())))
    return value


def _shortened(value: object, annotation: Any, path: str, problems: list[Problem]) -> object:
    """Without the items past a list's bound: looking at them takes as long as a caller likes."""
    if attrs.has(annotation) and isinstance(value, dict):
        hints = _hints(annotation)
        return {
            name: _shortened(member, hints.get(name), _join(path, name), problems)
            for name, member in value.items()
        }
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        most = next((note.maxItems for note in arguments[1:] if isinstance(note, Schema)), None)
        if isinstance(value, list) and most is not None and len(value) > most:
            message = f"must have at most {most} items, not {len(value)}"
            problems.append(Problem(field=path, message=message))
            value = value[:most]
        return _shortened(value, arguments[0], path, problems)
    if origin is tuple and isinstance(value, list):
        return [
            _shortened(item, arguments[0], f"{path}[{index}]", problems)
            for index, item in enumerate(value)
        ]
    if origin in (Union, UnionType):
        return _shortened(value, arguments[0], path, problems)
    return value


class _Judge:
    """Tells what is out of bounds or against a rule; members of a wrong type are passed over."""

    def __init__(self, structurer: Structurer) -> None:
        self._structurer = structurer

    def judge(self, value: object, annotation: Any, path: str) -> Iterator[Problem]:
        if attrs.has(annotation):
            yield from self._object(value, annotation, path)
            return
        origin, arguments = get_origin(annotation), get_args(annotation)
        if origin is Annotated:
            yield from self._noted(value, arguments[0], arguments[1:], path)
        elif origin is tuple and isinstance(value, list):
            for index, item in enumerate(value):
                yield from self.judge(item, arguments[0], f"{path}[{index}]")
        elif origin in (Union, UnionType):
            yield from self._optional(value, arguments, path)

    def _object(self, value: object, model: type, path: str) -> Iterator[Problem]:
        if not isinstance(value, dict):
            return
        for name, annotation in _hints(model).items():
            if name in value:
                yield from self.judge(value[name], annotation, _join(path, name))
        yield from self._ruled(value, model, getattr(model, "RULES", ()), path)

    def _optional(self, value: object, choices: tuple[Any, ...], path: str) -> Iterator[Problem]:
        """Null clears a field where leaving it out means something else; else it is no value."""
        inner, *others = choices
        if value is not None:
            yield from self.judge(value, inner, path)
        elif others == [NoneType]:
            yield Problem(field=path, message="must not be null: leave it out")

    def _noted(
        self, value: object, inner: Any, notes: tuple[Any, ...], path: str
    ) -> Iterator[Problem]:
        for fault in _first_fault(value, notes):
            yield Problem(field=path + fault.field, message=str(fault.message))
        yield from self.judge(value, inner, path)
        rules = tuple(note for note in notes if isinstance(note, Rule))
        yield from self._ruled(value, inner, rules, path)

    def _ruled(
        self, value: object, kind: Any, rules: tuple[Rule, ...], path: str
    ) -> Iterator[Problem]:
        """A rule sees sound values with their defaults, or it is not asked."""
        if not rules:
            return
        try:
            sound = self._structurer.structure(value, kind)
        except StrictError:
            return
        plain = _plain(sound)
        for rule in rules:
            if not rule.holds(plain, None):
                field = _join(path, rule.field.removeprefix("."))
                yield Problem(field=field, message=rule.message)


def _first_fault(value: object, notes: tuple[Any, ...]) -> Iterator[Problem]:
    """A field's first fault is enough: the second often follows from it."""
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
def _hints(model: type) -> dict[str, Any]:
    hints = get_type_hints(model, include_extras=True)
    return {field.name: hints[field.name] for field in attrs.fields(model)}


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path and name else path + name
