"""Annotations appear in the schema under the names of structural schemas."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar

import attrs
import pytest

from gpuruntime.models.definitions.schemas import Rule, Schema, schema_of, schema_of_kind
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.models.kubernetes.timestamps import MicroTime


class Colour(StrEnum):
    RED = "Red"
    BLUE = "Blue"


SMALL = Rule(text="self < 3", holds=lambda self, _: bool(self < 3), message="must be small")
SAME = Rule(
    text="self == oldSelf",
    holds=lambda self, old: bool(self == old),
    message="cannot change",
    field=".size",
    reason="FieldValueForbidden",
)


@attrs.frozen(kw_only=True, slots=True)
class Wheel:
    """Turns and
    turns."""

    RULES: ClassVar[tuple[Rule, ...]] = (SAME,)

    size: Annotated[int, Schema(minimum=1, maximum=9), SMALL]
    colour: Annotated[str, Schema(enum=tuple(Colour))] = Colour.BLUE
    is_flat: bool = False
    note: str = ""


@attrs.frozen(kw_only=True, slots=True)
class Cart:
    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    wheels: Annotated[tuple[Wheel, ...], Schema(maxItems=4)] = ()
    spare: Wheel | None = None


def test_a_text_is_bounded_by_its_annotation() -> None:
    bounded = Annotated[str, Schema(maxLength=3, pattern="^a$", description="An a.")]

    assert schema_of(bounded) == {
        "type": "string",
        "maxLength": 3,
        "pattern": "^a$",
        "description": "An a.",
    }


def test_bounds_of_an_alias_and_of_a_field_add_up() -> None:
    short = Annotated[str, Schema(maxLength=3)]

    assert schema_of(Annotated[short, Schema(description="Short.")]) == {
        "type": "string",
        "maxLength": 3,
        "description": "Short.",
    }


def test_a_bound_of_zero_is_a_bound() -> None:
    assert schema_of(Annotated[int, Schema(minimum=0)]) == {"type": "integer", "minimum": 0}


@pytest.mark.parametrize(
    "moment", [datetime, datetime | None, MicroTime, MicroTime | None], ids=str
)
def test_timestamps_of_both_kinds_are_texts_of_a_format(moment: object) -> None:
    assert schema_of(moment) == {"type": "string", "format": "date-time"}


def test_an_object_has_its_members_with_defaults_and_its_rules() -> None:
    assert schema_of(Wheel) == {
        "type": "object",
        "description": "Turns and turns.",
        "required": ["size"],
        "properties": {
            "size": {
                "type": "integer",
                "minimum": 1,
                "maximum": 9,
                "x-kubernetes-validations": [
                    {
                        "rule": "self < 3",
                        "message": "must be small",
                        "reason": "FieldValueInvalid",
                    }
                ],
            },
            "colour": {"type": "string", "enum": ["Red", "Blue"], "default": "Blue"},
            "is_flat": {"type": "boolean", "default": False},
            "note": {"type": "string"},
        },
        "x-kubernetes-validations": [
            {
                "rule": "self == oldSelf",
                "message": "cannot change",
                "reason": "FieldValueForbidden",
                "fieldPath": ".size",
            }
        ],
    }


def test_enums_become_plain_texts() -> None:
    colour = schema_of(Wheel)["properties"]["colour"]

    assert {type(text) for text in (*colour["enum"], colour["default"])} == {str}


def test_a_kind_names_itself_and_leaves_metadata_to_the_server() -> None:
    properties = schema_of_kind(Cart)["properties"]

    assert list(properties) == ["apiVersion", "kind", "metadata", "wheels", "spare"]
    assert properties["metadata"] == {
        "type": "object",
        "properties": {"name": {"type": "string"}},
    }
    assert properties["wheels"] == {"type": "array", "items": schema_of(Wheel), "maxItems": 4}
    assert properties["spare"] == schema_of(Wheel)


def test_conditions_are_a_map_by_their_type() -> None:
    schema = schema_of(Annotated[tuple[Condition, ...], Schema(maxItems=8, listMapKey="type")])

    assert schema["x-kubernetes-list-type"] == "map"
    assert schema["x-kubernetes-list-map-keys"] == ["type"]
    assert "type" in schema["items"]["required"]


def test_a_type_without_a_schema_is_rejected_by_name() -> None:
    with pytest.raises(TypeError, match="set"):
        schema_of(set[str])


def test_a_dict_becomes_an_object_of_any_members() -> None:
    bounded = Annotated[dict[str, Annotated[str, Schema(maxLength=3)]], Schema(maxProperties=2)]

    assert schema_of(bounded) == {
        "type": "object",
        "additionalProperties": {"type": "string", "maxLength": 3},
        "maxProperties": 2,
    }
