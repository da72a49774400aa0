"""Annotations of fields, taken apart one level at a time.

The reader of input, the schemas and the informers' interner follow these shapes. So they agree
about what a type means.
"""

from collections.abc import Iterator
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin, get_type_hints

import attrs


@attrs.frozen(slots=True)
class Plain:
    """A type without parts that we know: a scalar, an enumeration, Any."""

    type: Any


@attrs.frozen(slots=True)
class Model:
    """An attrs class; `fields_of` returns its fields."""

    type: type


@attrs.frozen(slots=True)
class Items:
    """A list or a tuple of any length."""

    container: type
    item: Any


@attrs.frozen(slots=True)
class Entries:
    """A dict whose keys are texts."""

    value: Any


@attrs.frozen(slots=True)
class Choice:
    """A union; None is not among its choices."""

    choices: tuple[Any, ...]
    takes_none: bool


@attrs.frozen(slots=True)
class Noted:
    """An annotation with notes beside it, such as bounds and rules."""

    inner: Any
    notes: tuple[Any, ...]


Shape: TypeAlias = Plain | Model | Items | Entries | Choice | Noted


@attrs.frozen(kw_only=True, slots=True)
class Field:
    """A field of a model; `default` is the one of attrs, which may be a factory."""

    name: str
    annotation: Any
    default: Any
    is_required: bool


@cache
def shape_of(annotation: Any) -> Shape:
    if attrs.has(annotation):
        return Model(annotation)
    arguments = get_args(annotation)
    match get_origin(annotation):
        case kind if kind is Annotated:
            return Noted(arguments[0], arguments[1:])
        case kind if kind is list or (kind is tuple and arguments[1:] == (...,)):
            return Items(kind, arguments[0])
        case kind if kind is dict and arguments[0] is str:
            return Entries(arguments[1])
        case kind if kind in (Union, UnionType):
            choices = tuple(each for each in arguments if each is not NoneType)
            return Choice(choices, takes_none=len(choices) < len(arguments))
        case _:
            return Plain(annotation)


@cache
def fields_of(model: type) -> tuple[Field, ...]:
    """Return the fields in their order. Only programs may leave out members in REQUIRED."""
    hints = get_type_hints(model, include_extras=True)
    demanded = getattr(model, "REQUIRED", ())
    return tuple(
        Field(
            name=field.name,
            annotation=hints[field.name],
            default=field.default,
            is_required=field.default is attrs.NOTHING or field.name in demanded,
        )
        for field in attrs.fields(model)
    )


def notes_of(annotation: Any) -> Iterator[Any]:
    """Yield the notes of the annotation and of its parts."""
    yield from getattr(annotation, "__metadata__", ())
    for argument in get_args(annotation):
        yield from notes_of(argument)
