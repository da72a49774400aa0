"""Structural schemas, compiled once into nodes that are quick to walk."""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, Final

import attrs
import msgspec

from gpuruntime.embedded.schemas.definition_objects import Schema
from gpuruntime.embedded.schemas.faults import Fault, invalid_value, not_supported, required

Twin = Callable[[Any, Any], bool]
Twins = Mapping[str, Twin]

TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
BOUNDS: Final = (
    "minimum",
    "maximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
)
OLD_SELF: Final = re.compile(r"\boldSelf\b")

AT_ROOT: Final = "must not be empty at the root"
IN_OBJECT: Final = "must not be empty for specified object fields"
IN_ARRAY: Final = "must not be empty for specified array items"


@attrs.frozen(kw_only=True, slots=True)
class Rule:
    """A CEL rule as its Python twin; a rule about oldSelf is skipped without an old value."""

    holds: Twin
    message: str
    field_path: str = ""
    reason: str = "FieldValueInvalid"
    needs_old: bool = False


@attrs.frozen(kw_only=True, slots=True, eq=False)
class Node:
    """A level of a schema; without `types` any type is valid.

    `has_rules` says whether there are rules at this level or below.
    """

    types: tuple[str, ...] = ()
    properties: Mapping[str, "Node"] = attrs.field(factory=dict)
    defaults: Mapping[str, Any] = attrs.field(factory=dict)
    additional: "Node | None" = None
    items: "Node | None" = None
    required: tuple[str, ...] = ()
    enum: tuple[Any, ...] = ()
    pattern: re.Pattern[str] | None = None
    bounds: Mapping[str, Any] = attrs.field(factory=dict)
    is_above_minimum: bool = False
    is_below_maximum: bool = False
    format: str = ""
    is_nullable: bool = False
    keeps_unknown: bool = False
    is_embedded: bool = False
    list_type: str = ""
    list_keys: tuple[str, ...] = ()
    all_of: tuple["Node", ...] = ()
    any_of: tuple["Node", ...] = ()
    one_of: tuple["Node", ...] = ()
    none_of: "Node | None" = None
    rules: tuple[Rule, ...] = ()
    has_rules: bool = False

    @cached_property
    def has_alternatives(self) -> bool:
        return bool(self.all_of or self.any_of or self.one_of or self.none_of)


class Compiler:
    """The compiler of a schema; it collects the schema's faults with their paths."""

    def __init__(self, twins: Twins) -> None:
        self._twins = twins
        self.faults: list[Fault] = []

    def compile(self, schema: Schema, path: str) -> Node:
        return self._node(schema, path, AT_ROOT)

    def _node(self, schema: Schema, path: str, typeless: str) -> Node:
        """Compile a level; `typeless` is the fault of a missing type, empty for alternatives."""
        if typeless and not (schema.type or schema.is_either or schema.keeps_unknown):
            self.faults.append(required(f"{path}.type", typeless))
        properties = {
            name: self._node(inner, f"{path}.properties[{name}]", IN_OBJECT)
            for name, inner in schema.properties.items()
        }
        additional = self._additional(schema, path)
        items = self._inner(schema.items, f"{path}.items", IN_ARRAY)
        rules = tuple(self._rules(schema, path))
        below = [*properties.values(), additional, items]
        return Node(
            types=("integer", "string") if schema.is_either else self._types(schema, path),
            properties=properties,
            defaults={
                name: inner.default
                for name, inner in schema.properties.items()
                if inner.default is not msgspec.UNSET
            },
            additional=additional,
            items=items,
            required=tuple(schema.required),
            enum=tuple(schema.enum),
            pattern=self._pattern(schema, path),
            bounds=_bounds(schema),
            is_above_minimum=schema.exclusiveMinimum,
            is_below_maximum=schema.exclusiveMaximum,
            format=schema.format,
            is_nullable=schema.nullable,
            keeps_unknown=schema.keeps_unknown,
            is_embedded=schema.is_embedded,
            list_type=schema.list_type,
            list_keys=tuple(schema.list_keys),
            all_of=self._alternatives(schema.allOf, f"{path}.allOf"),
            any_of=self._alternatives(schema.anyOf, f"{path}.anyOf"),
            one_of=self._alternatives(schema.oneOf, f"{path}.oneOf"),
            none_of=self._inner(schema.none_of, f"{path}.not", ""),
            rules=rules,
            has_rules=bool(rules) or any(each is not None and each.has_rules for each in below),
        )

    def _inner(self, schema: Schema | None, path: str, typeless: str) -> Node | None:
        return None if schema is None else self._node(schema, path, typeless)

    def _types(self, schema: Schema, path: str) -> tuple[str, ...]:
        if schema.type and schema.type not in TYPES:
            self.faults.append(not_supported(f"{path}.type", schema.type, list(TYPES)))
        return (schema.type,) if schema.type else ()

    def _additional(self, schema: Schema, path: str) -> Node | None:
        match schema.additionalProperties:
            case Schema() as inner:
                return self._node(inner, f"{path}.additionalProperties", IN_OBJECT)
            case True:
                return Node(keeps_unknown=True)
            case _:
                return None

    def _alternatives(self, schemas: Iterable[Schema], path: str) -> tuple[Node, ...]:
        return tuple(
            self._node(inner, f"{path}[{index}]", "") for index, inner in enumerate(schemas)
        )

    def _pattern(self, schema: Schema, path: str) -> re.Pattern[str] | None:
        text = schema.pattern
        if not text:
            return None
        try:
            return re.compile(in_python(text))
        except re.error as error:
            self.faults.append(invalid_value(f"{path}.pattern", text, f"is no pattern: {error}"))
            return None

    def _rules(self, schema: Schema, path: str) -> Iterable[Rule]:
        for index, written in enumerate(schema.validations):
            twin = self._twins.get(written.rule)
            if twin is None:
                why = "this server runs rules by their Python twins and has none of this one"
                field = f"{path}.x-kubernetes-validations[{index}].rule"
                self.faults.append(invalid_value(field, written.rule, why))
                continue
            yield Rule(
                holds=twin,
                message=written.message or f"failed rule: {written.rule}",
                field_path=written.fieldPath,
                reason=written.reason or "FieldValueInvalid",
                needs_old=bool(OLD_SELF.search(written.rule)) and not written.optionalOldSelf,
            )


def in_python(pattern: str) -> str:
    """Return the pattern for Python, where a dollar also matches before a last newline."""
    is_anchored = pattern.endswith("$") and not pattern.endswith("\\$")
    return f"{pattern[:-1]}\\Z" if is_anchored else pattern


def _bounds(schema: Schema) -> dict[str, Any]:
    named = ((name, getattr(schema, name)) for name in BOUNDS)
    return {name: bound for name, bound in named if bound is not None}
