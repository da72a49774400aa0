"""OpenAPI 3.0.3 schemas of models: each attrs class once, under its own name."""

import inspect
from datetime import datetime
from enum import Enum, StrEnum
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

import attrs

from gpuruntime.models.definitions.schemas import Schema
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
        if annotation in _SCALARS:
            return dict(_SCALARS[annotation])
        if attrs.has(annotation):
            return self._reference(annotation, is_closed=is_closed)
        if inspect.isclass(annotation) and issubclass(annotation, StrEnum):
            return {"type": "string", "enum": [str(each) for each in annotation]}
        arguments = get_args(annotation)
        match get_origin(annotation):
            case kind if kind is Annotated:
                return self._noted(annotation, is_closed=is_closed)
            case kind if kind in (tuple, list):
                items = self._schema(arguments[0], is_closed=is_closed)
                return {"type": "array", "items": items}
            case kind if kind is dict:
                values = self._schema(arguments[1], is_closed=is_closed)
                return {"type": "object", "additionalProperties": values}
            case kind if kind in (Union, UnionType):
                return self._union(arguments, is_closed=is_closed)
            case _:
                raise TypeError(f"{annotation} has no schema: use an attrs value or a scalar")

    def _noted(self, annotation: Any, *, is_closed: bool) -> JsonObject:
        inner, *notes = get_args(annotation)
        words: JsonObject = {}
        for note in notes:
            if isinstance(note, Schema):
                words |= note.words()
        own = {name: word for name, word in words.items() if not name.startswith("x-")}
        return _beside(self._schema(inner, is_closed=is_closed), own)

    def _union(self, choices: tuple[Any, ...], *, is_closed: bool) -> JsonObject:
        """Let null clear a member of a change that may be absent; other request members have a
        value.
        """
        if all(attrs.has(each) for each in choices):
            return {"anyOf": [self._reference(each, is_closed=is_closed) for each in choices]}
        inner, *others = (each for each in choices if each is not Unset)
        schema = self._schema(inner, is_closed=is_closed)
        takes_null = NoneType in others and (Unset in choices or not is_closed)
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
        hints = get_type_hints(model, include_extras=True)
        fields = attrs.fields(model)
        schema: JsonObject = {"type": "object", **description_of(model)}
        demanded = getattr(model, "REQUIRED", ())
        if required := [
            each.name for each in fields if each.default is attrs.NOTHING or each.name in demanded
        ]:
            schema["required"] = required
        schema["properties"] = {
            field.name: _beside(
                self._schema(hints[field.name], is_closed=is_closed), default_of(field)
            )
            for field in fields
        }
        if is_closed:
            schema["additionalProperties"] = False
        return schema


def description_of(model: type) -> JsonObject:
    text = " ".join(inspect.cleandoc(model.__doc__).split()) if model.__doc__ else ""
    return {"description": text} if text else {}


def default_of(field: "attrs.Attribute[Any]") -> JsonObject:
    match field.default:
        case Enum() as member if isinstance(member, str):
            return {"default": str(member)}
        case bool() | int() as value:
            return {"default": value}
        case str(text) if text:
            return {"default": text}
        case _:
            return {}


def _beside(schema: JsonObject, words: JsonObject) -> JsonObject:
    """Add words to a schema; OpenAPI 3.0 ignores everything beside a $ref."""
    if words and "$ref" in schema:
        return {"allOf": [schema], **words}
    return {**schema, **words}
