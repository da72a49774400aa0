"""Structural schemas: validation by field and reason, defaults, and pruning."""

from typing import Any

import pytest

from tests.proofs.conformance.calls import Api
from tests.proofs.conformance.definitions import widget


@pytest.mark.parametrize(
    ("spec", "causes"),
    [
        ({"size": 0}, {("spec.size", "FieldValueInvalid")}),
        ({"size": 11}, {("spec.size", "FieldValueInvalid")}),
        ({"size": "1"}, {("spec.size", "FieldValueTypeInvalid")}),
        ({"size": 1.5}, {("spec.size", "FieldValueTypeInvalid")}),
        ({"size": True}, {("spec.size", "FieldValueTypeInvalid")}),
        ({"color": "green"}, {("spec.color", "FieldValueNotSupported")}),
        ({"title": "UP"}, {("spec.title", "FieldValueInvalid")}),
        ({"title": "a"}, {("spec.title", "FieldValueInvalid")}),
        ({"title": "abcdef"}, {("spec.title", "FieldValueTooLong")}),
        ({"amount": True}, {("spec.amount", "FieldValueTypeInvalid")}),
        ({"amount": 1.5}, {("spec.amount", "FieldValueTypeInvalid")}),
        ({"ratio": "1.5"}, {("spec.ratio", "FieldValueTypeInvalid")}),
        ({"isOn": "true"}, {("spec.isOn", "FieldValueTypeInvalid")}),
        ({"at": "yesterday"}, {("spec.at", "FieldValueTypeInvalid")}),
        ({"tags": ["a", "b", "c"]}, {("spec.tags", "FieldValueTooMany")}),
        ({"tags": ["a", 1]}, {("spec.tags[1]", "FieldValueTypeInvalid")}),
        ({"tags": "a"}, {("spec.tags", "FieldValueTypeInvalid")}),
        ({"labels": {"a": 1}}, {("spec.labels.a", "FieldValueTypeInvalid")}),
        ({"labels": {"a": "", "b": "", "c": ""}}, {("spec.labels", "FieldValueTooMany")}),
        ({"parts": [{"count": 1}]}, {("spec.parts[0].name", "FieldValueRequired")}),
        (
            {"parts": [{"name": "x"}, {"name": "x"}]},
            {("spec.parts[1]", "FieldValueDuplicate")},
        ),
        ({"nested": "x"}, {("spec.nested", "FieldValueTypeInvalid")}),
        ({"nested": {"depth": "x"}}, {("spec.nested.depth", "FieldValueTypeInvalid")}),
    ],
    ids=str,
)
async def test_an_invalid_value_is_reported_by_field_and_reason(
    api: Api, widgets: str, spec: dict[str, Any], causes: set[tuple[str, str]]
) -> None:
    assert (await api.post(widgets, widget("a", **spec))).causes == causes


async def test_all_faults_are_reported_at_once(api: Api, widgets: str) -> None:
    answer = await api.post(widgets, widget("a", size=0, color="green", isOn="no"))
    assert {field for field, _ in answer.causes} == {"spec.size", "spec.color", "spec.isOn"}


async def test_a_refusal_names_the_object(api: Api, widgets: str) -> None:
    answer = await api.post(widgets, widget("a", size=0))
    details = answer.body["details"]
    assert details["name"] == "a"
    assert details["group"] == "conformance.example.com"
    assert details["kind"] == "Widget"


async def test_a_missing_member_is_required(api: Api, widgets: str) -> None:
    body = widget("a")
    del body["spec"]["size"]
    assert (await api.post(widgets, body)).causes == {("spec.size", "FieldValueRequired")}


@pytest.mark.parametrize("amount", [5, "5", "50%"], ids=str)
async def test_an_int_or_string_accepts_both(api: Api, widgets: str, amount: object) -> None:
    made = (await api.post(widgets, widget("a", amount=amount))).ok(201)
    assert made["spec"]["amount"] == amount


async def test_a_whole_number_written_as_a_float_is_an_integer(api: Api, widgets: str) -> None:
    made = (await api.post(widgets, widget("a", size=2.0))).ok(201)
    assert made["spec"]["size"] == 2


async def test_absent_members_get_their_defaults(api: Api, widgets: str) -> None:
    made = (await api.post(widgets, widget("a", parts=[{"name": "x"}]))).ok(201)
    assert made["spec"] == {
        "size": 1,
        "color": "red",
        "nested": {"depth": 3},
        "parts": [{"name": "x", "count": 1}],
    }


async def test_null_becomes_the_default_unless_null_is_allowed(api: Api, widgets: str) -> None:
    made = (await api.post(widgets, widget("a", color=None, maybe=None))).ok(201)
    assert made["spec"]["color"] == "red"
    assert made["spec"]["maybe"] is None


async def test_null_without_a_default_is_dropped_unless_null_is_allowed(
    api: Api, widgets: str
) -> None:
    made = (await api.post(widgets, widget("a", title=None))).ok(201)
    assert "title" not in made["spec"]


async def test_unknown_members_are_dropped(api: Api, widgets: str) -> None:
    body = {**widget("a", unknown=1, nested={"depth": 1, "other": 2}), "extra": True}
    made = (await api.post(widgets, body)).ok(201)
    assert made["spec"]["nested"] == {"depth": 1}
    assert "unknown" not in made["spec"]
    assert "extra" not in made


async def test_unknown_members_are_kept_if_the_schema_says_so(api: Api, widgets: str) -> None:
    anything = {"a": [1, {"b": None}], "c": 1.5}
    made = (await api.post(widgets, widget("a", anything=anything))).ok(201)
    assert made["spec"]["anything"] == anything


async def test_unknown_metadata_is_dropped(api: Api, widgets: str) -> None:
    made = (await api.post(widgets, widget("a", metadata={"unknown": 1}))).ok(201)
    assert "unknown" not in made["metadata"]


async def test_metadata_of_a_wrong_type_is_400(api: Api, widgets: str) -> None:
    answer = await api.post(widgets, widget("a", metadata={"labels": {"a": 1}}))
    assert answer.refusal == (400, "BadRequest")


@pytest.mark.parametrize("number", [2**53 + 1, -(2**63), 2**63 - 1], ids=str)
async def test_large_integers_are_kept_exactly(api: Api, widgets: str, number: int) -> None:
    made = (await api.post(widgets, widget("a", anything={"n": number}))).ok(201)
    assert made["spec"]["anything"] == {"n": number}
