from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, ClassVar

import attrs
import pytest

from gpuruntime.models.definitions.schemas import Check, Rule, Schema
from gpuruntime.strict.structure import (
    FieldError,
    ManyFieldsError,
    Problem,
    StrictError,
    StrictReader,
    read,
)


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@attrs.frozen(kw_only=True, slots=True)
class Port:
    name: str
    port: int = 80


@attrs.frozen(kw_only=True, slots=True)
class Body:
    name: str
    ratio: float = 1.0
    is_on: bool = False
    colour: Colour = Colour.RED
    ports: tuple[Port, ...] = ()
    labels: dict[str, str] = attrs.field(factory=dict)
    words: list[str] = attrs.field(factory=list)
    note: str | None = None

    def __attrs_post_init__(self) -> None:
        if self.name == "both":
            raise ManyFieldsError((FieldError("name", "is taken"), FieldError("ratio", "odd")))
        if self.name == "one":
            raise FieldError("name", "is taken")


def problems(value: object) -> dict[str, str]:
    with pytest.raises(StrictError) as caught:
        StrictReader(takes_null=True).read(value, Body)
    return {problem.field: problem.message for problem in caught.value.problems}


def test_a_whole_document_becomes_a_value() -> None:
    value: dict[str, Any] = {
        "name": "a",
        "ratio": 2,
        "is_on": True,
        "colour": "blue",
        "ports": [{"name": "http", "port": 8080}],
        "labels": {"k": "v"},
        "words": ["x"],
        "note": None,
    }
    assert StrictReader(takes_null=True).read(value, Body) == Body(
        name="a",
        ratio=2.0,
        is_on=True,
        colour=Colour.BLUE,
        ports=(Port(name="http", port=8080),),
        labels={"k": "v"},
        words=["x"],
    )


def test_every_fault_is_named_at_once() -> None:
    found = problems(
        {
            "is_on": 1,
            "colour": "green",
            "ports": [{"name": "http"}, {"port": "80", "extra": 1}],
            "labels": {"k": 1},
            "words": "abc",
            "surprise": 1,
        }
    )
    assert found == {
        "name": "is required",
        "is_on": "must be true or false, not an integer",
        "colour": "must be one of red, blue",
        "ports[1].name": "is required",
        "ports[1].port": "must be an integer, not a string",
        "ports[1].extra": "unknown field",
        "labels.k": "must be a string, not an integer",
        "words": "must be a list, not a string",
        "surprise": "unknown field",
    }


@pytest.mark.parametrize("port", ["7", 1.0, True, None, [], {}], ids=repr)
def test_nothing_is_coerced_to_an_integer(port: object) -> None:
    assert list(problems({"name": "a", "ports": [{"name": "p", "port": port}]})) == [
        "ports[0].port"
    ]


@pytest.mark.parametrize("document", [None, [], "x", 1, [["name", "a"]]], ids=str)
def test_a_document_that_is_not_an_object_is_rejected(document: object) -> None:
    assert problems(document)[""].startswith("must be an object, not ")


def test_a_cross_field_check_names_its_fields() -> None:
    assert problems({"name": "one"}) == {"name": "is taken"}
    assert problems({"name": "both"}) == {"name": "is taken", "ratio": "odd"}


ALIKE = Rule(text="alike", holds=lambda own, _: own["x"] == own["y"], message="must be alike")


@attrs.frozen(kw_only=True, slots=True)
class Point:
    RULES: ClassVar[tuple[Rule, ...]] = (ALIKE,)

    x: Annotated[int, Schema(maximum=9)] = 0
    y: Annotated[int, Schema(maximum=9)] = 0


@attrs.frozen(kw_only=True, slots=True)
class Drawing:
    points: Annotated[tuple[Point, ...], Schema(maxItems=2)] = ()
    title: Annotated[str, Schema(maxLength=3), Check(lambda text: "ugly" * (text == "no"))] = ""
    style: Point | None = None


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param(
            {"title": "long", "points": [{"x": "1"}], "style": {"x": 10}},
            [
                ("points[0].x", "must be an integer, not a string"),
                ("title", "must be at most 3 characters, not 4"),
                ("style.x", "must be at most 9"),
                ("style", "must be alike"),
            ],
            id="shapes come before bounds, and rules judge what is out of bounds",
        ),
        pytest.param(
            {"points": [{"x": 1}, {"x": "1", "y": 2}, {"x": 3}]},
            [
                ("points", "must have at most 2 items, not 3"),
                ("points[1].x", "must be an integer, not a string"),
                ("points[0]", "must be alike"),
            ],
            id="items past the bound are not read, and no rule judges an unsound item",
        ),
        pytest.param({"title": "no"}, [("title", "ugly")], id="a check of callers' values"),
        pytest.param(
            {"style": None}, [("style", "must not be null: leave it out")], id="a needless null"
        ),
    ],
)
def test_shape_bounds_and_rules_are_judged_together(
    document: object, expected: list[tuple[str, str]]
) -> None:
    with pytest.raises(StrictError) as caught:
        read(document, Drawing)
    assert [(each.field, each.message) for each in caught.value.problems] == expected


def test_a_field_is_named_once_by_the_first_of_its_problems() -> None:
    further = [Problem(field="title", message="is taken")]
    with pytest.raises(StrictError) as caught:
        read({"title": "long", "style": 1}, Drawing, further)
    assert [str(each) for each in caught.value.problems] == [
        "style: must be an object, not an integer",
        "title: is taken",
    ]


def test_a_type_without_a_strict_form_is_refused_before_anything_is_read() -> None:
    @attrs.frozen
    class Odd:
        moment: datetime

    with pytest.raises(TypeError, match="cannot be read strictly"):
        StrictReader().read({}, Odd)
