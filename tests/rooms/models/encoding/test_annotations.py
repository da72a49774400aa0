"""Annotations taken apart: each shape that fields of our models have."""

from typing import Annotated, Any, ClassVar

import attrs
import pytest

from gpuruntime.models.encoding.annotations import (
    Choice,
    Entries,
    Field,
    Items,
    Model,
    Noted,
    Plain,
    Shape,
    fields_of,
    notes_of,
    shape_of,
)
from gpuruntime.models.requests.fields import Unset


@attrs.frozen(kw_only=True)
class Part:
    REQUIRED: ClassVar[tuple[str, ...]] = ("kind",)

    name: Annotated[str, "short"]
    sizes: tuple[int, ...] = ()
    kind: str = ""


@pytest.mark.parametrize(
    ("annotation", "shape"),
    [
        pytest.param(str, Plain(str), id="a scalar"),
        pytest.param(Any, Plain(Any), id="Any"),
        pytest.param(Part, Model(Part), id="a model"),
        pytest.param(tuple[int, ...], Items(tuple, int), id="a tuple of any length"),
        pytest.param(list[Part], Items(list, Part), id="a list"),
        pytest.param(tuple[int, str], Plain(tuple[int, str]), id="a tuple of fixed length"),
        pytest.param(dict[str, int], Entries(int), id="a dict"),
        pytest.param(int | None, Choice((int,), takes_none=True), id="an optional"),
        pytest.param(int | Unset, Choice((int, Unset), takes_none=False), id="may be unset"),
        pytest.param(
            int | Unset | None, Choice((int, Unset), takes_none=True), id="may be cleared"
        ),
        pytest.param(Annotated[Annotated[str, 1], 2], Noted(str, (1, 2)), id="notes beside notes"),
    ],
)
def test_each_annotation_has_its_shape(annotation: Any, shape: Shape) -> None:
    assert shape_of(annotation) == shape


def test_fields_have_their_annotations_with_notes() -> None:
    assert fields_of(Part)[0] == Field(
        name="name", annotation=Annotated[str, "short"], default=attrs.NOTHING, is_required=True
    )


def test_a_field_is_required_if_it_has_no_default_or_is_in_required() -> None:
    assert [each.is_required for each in fields_of(Part)] == [True, False, True]


def test_notes_of_parts_are_found() -> None:
    assert list(notes_of(tuple[Annotated[int, "a"], ...] | Annotated[str, "b"])) == ["a", "b"]
