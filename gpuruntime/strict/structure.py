"""Human input becomes attrs values without any coercion, and every fault is named by its path.

This module reads configuration files and request bodies, but not answers of the API server.
"""

import typing
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any, TypeVar

import attrs
import cattrs
from cattrs.cols import (
    homogenous_tuple_structure_factory,
    is_mapping,
    list_structure_factory,
    mapping_structure_factory,
)
from cattrs.errors import (
    AttributeValidationNote,
    BaseValidationError,
    ClassValidationError,
    ForbiddenExtraKeysError,
    IterableValidationError,
    IterableValidationNote,
)
from cattrs.gen import make_dict_structure_fn

from gpuruntime.errors import GpuRuntimeError

Hook = Callable[[Any, Any], Any]
ValueT = TypeVar("ValueT")

NAMES = {
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
    """An attrs validator or a cross-field check raises this error to name the field at fault."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class ManyFieldsError(ValueError):
    """Several faults that one cross-field check has found."""

    def __init__(self, errors: tuple[FieldError, ...]) -> None:
        super().__init__("; ".join(str(error) for error in errors))
        self.errors = errors


class Structurer:
    """A cattrs converter that rejects values that are not exactly of the declared type."""

    def __init__(self) -> None:
        self._converter = cattrs.Converter(forbid_extra_keys=True, detailed_validation=True)
        for kind in (str, int, bool):
            self._converter.register_structure_hook(kind, _exact)
        self._converter.register_structure_hook(float, _number)
        self._converter.register_structure_hook(StrEnum, _member)
        self._guard(attrs.has, dict, _object_reader)
        self._guard(_is_list, list, list_structure_factory)
        self._guard(_is_tuple, list, homogenous_tuple_structure_factory)
        self._guard(is_mapping, dict, mapping_structure_factory)

    def register(self, kind: Any, parse: Callable[[Any], Any]) -> None:
        """Read values of the declared type with `parse`, which raises ValueError."""
        self._converter.register_structure_hook(kind, lambda value, _: parse(value))

    def structure(self, value: object, kind: type[ValueT]) -> ValueT:
        try:
            return self._converter.structure(value, kind)
        except (BaseValidationError, ValueError) as error:
            raise StrictError(tuple(_problems(error, ""))) from error

    def _guard(
        self, applies: Callable[[Any], bool], shape: type, make: Callable[..., Hook]
    ) -> None:
        """Check the shape before cattrs does, since cattrs accepts all iterables and mappings."""

        def factory(kind: Any, converter: cattrs.Converter) -> Hook:
            inner = make(kind, converter)

            def structure(value: Any, _: Any) -> Any:
                if type(value) is not shape:
                    raise ValueError(_expected(shape, value))
                return inner(value, kind)

            return structure

        self._converter.register_structure_hook_factory(applies)(factory)


def _object_reader(kind: Any, converter: cattrs.Converter) -> Hook:
    """Return a reader of an attrs class; the defaults of its REQUIRED members are for programs."""
    read = make_dict_structure_fn(kind, converter)
    required = getattr(kind, "REQUIRED", ())
    if not required:
        return read

    def read_required(value: Any, _: Any) -> Any:
        problems = [FieldError(name, "is required") for name in required if name not in value]
        try:
            made = read(value, kind)
        except BaseValidationError as error:
            problems += [FieldError(each.field, each.message) for each in _problems(error, "")]
            raise ManyFieldsError(tuple(problems)) from error
        raise_all(problems)
        return made

    return read_required


def raise_all(problems: list[FieldError]) -> None:
    if problems:
        raise ManyFieldsError(tuple(problems))


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


def _is_list(kind: Any) -> bool:
    return typing.get_origin(kind) is list


def _is_tuple(kind: Any) -> bool:
    return typing.get_origin(kind) is tuple and typing.get_args(kind)[1:] == (...,)


def _expected(kind: type, value: object) -> str:
    return f"must be {NAMES[kind]}, not {NAMES.get(type(value), type(value).__name__)}"


def _problems(error: BaseException, path: str) -> Iterator[Problem]:
    """Walk the tree of cattrs' errors, and yield each leaf with its path."""
    match error:
        case ClassValidationError() | IterableValidationError():
            noted, bare = error.group_exceptions()
            for inner, note in noted:
                yield from _problems(inner, _descend(path, note))
            for inner in bare:
                yield from _problems(inner, path)
        case ForbiddenExtraKeysError():
            for name in sorted(map(str, error.extra_fields)):
                yield Problem(field=_join(path, name), message="unknown field")
        case ManyFieldsError():
            for each in error.errors:
                yield Problem(field=_join(path, each.field), message=str(each))
        case FieldError():
            yield Problem(field=_join(path, error.field), message=str(error))
        case KeyError():
            yield Problem(field=path, message="is required")
        case _:
            yield Problem(field=path, message=str(error))


def _descend(path: str, note: AttributeValidationNote | IterableValidationNote) -> str:
    if isinstance(note, AttributeValidationNote):
        return _join(path, note.name)
    if isinstance(note.index, str):
        return _join(path, note.index)
    return f"{path}[{note.index}]"


def _join(path: str, name: str) -> str:
    if not path or not name or name.startswith("["):
        return path + name
    return f"{path}.{name}"
