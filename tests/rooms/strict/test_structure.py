from enum import StrEnum
from typing import Any

import attrs
import pytest

from gpuruntime.strict.structure import FieldError, ManyFieldsError, StrictError, Structurer


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
        Structurer().structure(value, Body)
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
    assert Structurer().structure(value, Body) == Body(
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
