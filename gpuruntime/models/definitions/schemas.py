"""Structural schemas of models, derived from the types of fields and their annotations.

`Annotated[str, Schema(maxLength=63)]` bounds a field, or the items of a list. A `Rule` beside it
judges the value by CEL; rules over a whole object are in its class as `RULES`. `SHOWN` has the
members that its view adds; requests may send them back, and they are ignored. A default goes into
the schema unless it means the same as an absent member: an empty text, None, an empty container.
"""

import inspect
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, TypeAlias

import attrs

from gpuruntime.models.encoding.annotations import (
    Choice,
    Entries,
    Field,
    Items,
    Model,
    Noted,
    fields_of,
    shape_of,
)
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import ObjectMeta

Twin: TypeAlias = Callable[[Any, Any], bool]
StructuralSchema: TypeAlias = dict[str, Any]  # plain JSON, whose members are schema keywords

_GIVEN: dict[object, StructuralSchema] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    datetime: {"type": "string", "format": "date-time"},
    # The API server knows the metadata; the name is listed so that rules can point at it.
    ObjectMeta: {"type": "object", "properties": {"name": {"type": "string"}}},
    # These are the bounds of Kubernetes' own conditions.
    Condition: {
        "type": "object",
        "required": ["type", "status", "reason", "message", "lastTransitionTime"],
        "properties": {
            "type": {"type": "string", "maxLength": 316},
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "reason": {"type": "string", "minLength": 1, "maxLength": 1024},
            "message": {"type": "string", "maxLength": 32768},
            "lastTransitionTime": {"type": "string", "format": "date-time"},
            "observedGeneration": {"type": "integer", "minimum": 0},
        },
    },
}


@attrs.frozen(kw_only=True, slots=True)
class Schema:
    """The schema keywords that a Python type cannot express, under their own names."""

    description: str = ""
    minLength: int | None = None
    maxLength: int | None = None
    pattern: str = ""
    enum: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    maxItems: int | None = None
    maxProperties: int | None = None
    listMapKey: str = ""

    def words(self) -> JsonObject:
        words: JsonObject = {
            name: [str(each) for each in word] if isinstance(word, tuple) else word
            for name, word in attrs.asdict(self).items()
            if word not in (None, "", ())
        }
        if key := words.pop("listMapKey", None):
            words |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}
        return words


@attrs.frozen(kw_only=True, slots=True)
class Rule:
    """A CEL rule and its Python twin, which give one verdict on the same JSON.

    The twin takes self and oldSelf as plain JSON, with the schema's defaults filled in and absent
    members left out. `field` is the path of the member at fault, below the object of the rule.
    """

    text: str
    holds: Twin
    message: str
    field: str = ""
    reason: str = "FieldValueInvalid"

    def to_json(self) -> JsonObject:
        path: JsonObject = {"fieldPath": self.field} if self.field else {}
        return {"rule": self.text, "message": self.message, "reason": self.reason} | path


@attrs.frozen(slots=True)
class Check:
    """A check of what callers send, beside a Schema in an annotation.

    `fault_of` returns the fault, or nothing.
    """

    fault_of: Callable[[Any], str]
    field: str = ""


@attrs.frozen(slots=True)
class Nullable:
    """A mark of an optional member that views show as null: requests may send the null back."""


def schema_of_kind(model: type) -> StructuralSchema:
    """Return the schema of a whole object, as a definition contains it."""
    schema = _object(model)
    text = {"type": "string"}
    return schema | {"properties": {"apiVersion": text, "kind": text} | schema["properties"]}


def schema_of(annotation: Any) -> StructuralSchema:
    if annotation in _GIVEN:
        return dict(_GIVEN[annotation])
    match shape_of(annotation):
        case Model(model):
            return _object(model)
        case Noted(inner, notes):
            return _noted(schema_of(inner), notes)
        case Items(_, item):
            return {"type": "array", "items": schema_of(item)}
        case Entries(value):
            return {"type": "object", "additionalProperties": schema_of(value)}
        case Choice((optional,), _):
            return schema_of(optional)
        case _:
            raise TypeError(
                f"{annotation} has no structural schema: use an attrs value, tuple or scalar"
            )


def _noted(schema: StructuralSchema, notes: Iterable[object]) -> StructuralSchema:
    for note in notes:
        if isinstance(note, Schema):
            schema |= note.words()
    return schema | _validations(note for note in notes if isinstance(note, Rule))


def _object(model: type) -> StructuralSchema:
    fields = fields_of(model)
    schema: StructuralSchema = {"type": "object"}
    if model.__doc__:
        schema["description"] = " ".join(inspect.cleandoc(model.__doc__).split())
    if required := [field.name for field in fields if field.is_required]:
        schema["required"] = required
    schema["properties"] = {
        field.name: schema_of(field.annotation) | _default(field) for field in fields
    }
    return schema | _validations(getattr(model, "RULES", ()))


def _default(field: Field) -> StructuralSchema:
    match field.default:
        case str(text):
            return {"default": str(text)} if text else {}
        case bool() | int() as value:
            return {"default": value}
        case _:
            return {}


def _validations(rules: Iterable[Rule]) -> StructuralSchema:
    written = [rule.to_json() for rule in rules]
    return {"x-kubernetes-validations": written} if written else {}
