"""Every rule's twin judges a table of writes, which real servers judge as well."""

import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.models.definitions.rules import TWINS
from gpuruntime.models.definitions.schemas import StructuralSchema, schema_of_kind
from gpuruntime.models.encoding.codec import decode, encode, to_json
from gpuruntime.models.kinds.pools import StockPool
from gpuruntime.models.kinds.storages import GPUStorage
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.strict.structure import Problem
from gpuruntime.strict.validation import broken_rules
from tests.rooms.models.documents import documents
from tests.rooms.models.rule_cases import RULE_CASES, Document, RuleCase

MODELS: dict[str, type[GPUUnit] | type[StockPool] | type[GPUStorage]] = {
    "GPUUnit": GPUUnit,
    "StockPool": StockPool,
    "GPUStorage": GPUStorage,
}
SCHEMAS = {kind: schema_of_kind(model) for kind, model in MODELS.items()}


def with_defaults(document: Document) -> Document:
    held = decode(encode(document), MODELS[document["kind"]])
    return {"metadata": {"name": held.metadata.name}, "spec": to_json(held.spec)}


def problems_of(case: RuleCase) -> list[Problem]:
    schema = SCHEMAS[case.document["kind"]]
    old = with_defaults(case.old) if case.old else None
    return list(broken_rules(schema, with_defaults(case.document), old=old))


def rules_of(schema: StructuralSchema, path: str = "") -> Iterator[tuple[str, Document]]:
    """Yield each rule with the path of the field that it denies; items of a list are `[]`."""
    for rule in schema.get("x-kubernetes-validations", []):
        yield (path + rule.get("fieldPath", "")).removeprefix("."), rule
    for name, member in schema.get("properties", {}).items():
        yield from rules_of(member, f"{path}.{name}".removeprefix("."))
    if "items" in schema:
        yield from rules_of(schema["items"], f"{path}[]")


@pytest.mark.parametrize("case", RULE_CASES, ids=str)
def test_a_write_is_judged_as_the_table_says(case: RuleCase) -> None:
    denied = {problem.field for problem in problems_of(case)}

    assert denied == ({case.denied} if case.denied else set())


def test_the_twins_are_those_of_the_rules_in_use() -> None:
    assert {rule["rule"] for each in SCHEMAS.values() for _, rule in rules_of(each)} == set(TWINS)


def test_every_rule_denies_some_row_of_the_table() -> None:
    denied = {
        (re.sub("[0-9]+", "", problem.field), problem.message)
        for case in RULE_CASES
        for problem in problems_of(case)
    }
    rules = {(path, rule["message"]) for each in SCHEMAS.values() for path, rule in rules_of(each)}

    assert rules == denied


@given(data=st.data(), kind=st.sampled_from(sorted(SCHEMAS)))
def test_a_write_that_changes_nothing_breaks_no_rule_of_transition(
    data: st.DataObject, kind: str
) -> None:
    spec = data.draw(documents(SCHEMAS[kind]["properties"]["spec"]))
    document = with_defaults({"kind": kind, "metadata": {"name": "a"}, "spec": spec})

    created = list(broken_rules(SCHEMAS[kind], document))

    assert list(broken_rules(SCHEMAS[kind], document, old=document)) == created


@given(data=st.data(), kind=st.sampled_from(sorted(SCHEMAS)))
def test_the_twins_judge_every_value_within_the_bounds(data: st.DataObject, kind: str) -> None:
    old, new = (
        {"metadata": {"name": "a"}, "spec": spec}
        for spec in data.draw(st.tuples(*[documents(SCHEMAS[kind]["properties"]["spec"])] * 2))
    )

    fields = [problem.field for problem in broken_rules(SCHEMAS[kind], new, old=old)]

    assert all(field.startswith("spec.") for field in fields)


def test_patterns_in_rules_are_anchored_and_free_of_escapes() -> None:
    """RE2 searches while Python matches in full, and CEL has escapes of its own."""
    for text in TWINS:
        assert "\\" not in text
        assert all(
            re.fullmatch("\\^.*\\$", each) for each in re.findall(r"matches\('(.*?)'\)", text)
        )
