"""OpenAPI 3.0.3 schemas of models: each attrs class once, under its own name."""

import inspect
from datetime import datetime
from enum import Enum, StrEnum
from typing import Any, Final

from gpuruntime.models.definitions.schemas import Nullable, Schema
from gpuruntime.models.encoding.annotations import (
    Choice,
    Entries,
    Field,
    Items,
    Model,
    Noted,
    Plain,
    fields_of,
    shape_of,
)
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.requests.fields import Unset

_SCALARS: Final[dict[object, JsonObject]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    datetime: {"type": "string", "format": "date-time"},
    # JSON of any shape, null included.
    Any: {"nullable": True},
}


class Components:
    """Schemas of requests are closed, as the reader refuses unknown fields; those of answers are
    open.

    A class that both use is listed twice if the requests come first.
    """

    def __init__(self) -> None:
        self.schemas: dict[str, JsonObject] = {}
        self._closed: set[str] = set()

    def request(self, model: type) -> JsonObject:
        return self._reference(model, is_closed=True)

    def answer(self, annotation: Any) -> JsonObject:
        return self._schema(annotation, is_closed=False)

    def _schema(self, annotation: Any, *, is_closed: bool) -> JsonObject:
        match shape_of(annotation):
            case Model(model):
                return self._reference(model, is_closed=is_closed)
            case Noted(inner, notes):
                return _beside(self._schema(inner, is_closed=is_closed), _words_of(notes))
            case Items(_, item):
                return {"type": "array", "items": self._schema(item, is_closed=is_closed)}
            case Entries(value):
                values = self._schema(value, is_closed=is_closed)
                return {"type": "object", "additionalProperties": values}
            case Choice(choices, takes_none):
                return self._union(choices, takes_none=takes_none, is_closed=is_closed)
            case Plain(kind):
                return _scalar(kind)

    def _union(self, choices: tuple[Any, ...], *, takes_none: bool, is_closed: bool) -> JsonObject:
        """Let null clear a member of a change that may be absent; other request members have a
        value.
        """
        inner, *others = (each for each in choices if each is not Unset)
        if others:
            return {"anyOf": [self._schema(each, is_closed=is_closed) for each in choices]}
        schema = self._schema(inner, is_closed=is_closed)
        takes_null = takes_none and (Unset in choices or not is_closed)
        return _beside(schema, {"nullable": True}) if takes_null else schema

    def _reference(self, model: type, *, is_closed: bool) -> JsonObject:
        name = model.__name__
        if is_closed:
            self._closed.add(name)
        elif name in self._closed:
            name = f"{name}View"
        if name not in self.schemas:
            self.schemas[name] = {}
            self.schemas[name] = self._object(model, is_closed=is_closed)
        return {"$ref": f"#/components/schemas/{name}"}

    def _object(self, model: type, *, is_closed: bool) -> JsonObject:
        fields = fields_of(model)
        schema: JsonObject = {"type": "object", **description_of(model)}
        if required := [field.name for field in fields if field.is_required]:
            schema["required"] = required
        shown: dict[str, Any] = getattr(model, "SHOWN", {}) if is_closed else {}
        schema["properties"] = {
            field.name: _beside(
                self._schema(field.annotation, is_closed=is_closed), default_of(field)
            )
            for field in fields
        } | {
            name: _beside(self._schema(annotation, is_closed=False), {"readOnly": True})
            for name, annotation in shown.items()
        }
        if is_closed:
            schema["additionalProperties"] = False
        return schema


def description_of(model: type) -> JsonObject:
    text = " ".join(inspect.cleandoc(model.__doc__).split()) if model.__doc__ else ""
    return {"description": text} if text else {}


def default_of(field: Field) -> JsonObject:
    match field.default:
        case Enum() as member if isinstance(member, str):
            return {"default": str(member)}
        case bool() | int() as value:
            return {"default": value}
        case str(text) if text:
            return {"default": text}
        case _:
            return {}


def _scalar(kind: Any) -> JsonObject:
    if kind in _SCALARS:
        return dict(_SCALARS[kind])
    if inspect.isclass(kind) and issubclass(kind, StrEnum):
        return {"type": "string", "enum": [str(each) for each in kind]}
    raise TypeError(f"{kind} has no schema: use an attrs value or a scalar")


def _words_of(notes: tuple[Any, ...]) -> JsonObject:
    """Return the words of the schemas, without those that only Kubernetes knows."""
    words: JsonObject = {"nullable": True} if Nullable() in notes else {}
    for note in notes:
        if isinstance(note, Schema):
            words |= note.words()
    return {name: word for name, word in words.items() if not name.startswith("x-")}


def _beside(schema: JsonObject, words: JsonObject) -> JsonObject:
    """Add words to a schema; OpenAPI 3.0 ignores everything beside a $ref."""
    if words and "$ref" in schema:
        return {"allOf": [schema], **words}
    return {**schema, **words}
