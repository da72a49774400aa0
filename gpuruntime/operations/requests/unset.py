"""UNSET distinguishes a member that an update leaves out from one that it clears with null."""

from enum import Enum
from functools import partial
from types import NoneType
from typing import Any, Final, TypeAlias, TypeVar, get_args, get_type_hints

from gpuruntime.strict.structure import FieldError, ManyFieldsError, StrictError, Structurer

ValueT = TypeVar("ValueT")


class Unset(Enum):
    """The type whose only value is UNSET."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET
# null clears the field; UNSET leaves it as it is.
Given: TypeAlias = ValueT | Unset | None


def structurer_of(*updates: type) -> Structurer:
    """Return a converter for update models, whose members may be given, cleared or left out."""
    structurer = Structurer()
    for model in updates:
        for annotation in get_type_hints(model, include_extras=True).values():
            inner, *others = get_args(annotation)
            parse = partial(_given, structurer, inner, can_clear=NoneType in others)
            structurer.register(annotation, parse)
    return structurer


def _given(structurer: Structurer, inner: Any, value: object, *, can_clear: bool) -> Any:
    if value is None and can_clear:
        return None
    try:
        return structurer.structure(value, inner)
    except StrictError as error:
        raise ManyFieldsError(
            tuple(FieldError(each.field, each.message) for each in error.problems)
        ) from error
