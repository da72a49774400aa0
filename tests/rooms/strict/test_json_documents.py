"""Strict reading of JSON rejects faulty documents, and names faults by their paths."""

from collections.abc import Callable

import pytest

from gpuruntime.strict.json_documents import MOST_LEVELS, read_document
from gpuruntime.strict.structure import Problem, StrictError


def fields_at_fault(body: bytes) -> list[str]:
    return [problem.field for problem in read_document(body).problems]


def refusal_of(body: bytes) -> str:
    with pytest.raises(StrictError) as caught:
        read_document(body)
    (problem,) = caught.value.problems
    assert problem.field == ""
    return problem.message


def test_a_valid_document_is_read_as_it_is() -> None:
    document = read_document('{"a": [1, 2.5, true, null, "ü"], "b": {"c": ""}}'.encode())
    assert document.value == {"a": [1, 2.5, True, None, "ü"], "b": {"c": ""}}
    assert document.problems == ()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "empty"),
        (b"  \n", "empty"),
        (b"{", "line 1 column 2"),
        (b'{"a": 1} {"b": 2}', "extra data"),
        (b"{} x", "extra data"),
        (b'{"a": 1,}', "line 1"),
        (b"{'a': 1}", "line 1"),
        (b'{"a": 01}', "line 1"),
        (b'{"a": "\n"}', "line 1"),
        (b"\xef\xbb\xbf{}", "not one JSON document"),
        (b'{"a": "\xff"}', "not UTF-8: byte 7"),
        (b'{"a": "\xed\xa0\x80"}', "not UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "not UTF-8"),
        (b"[" * 500_000, "deeper than 64 levels"),
    ],
)
def test_a_body_that_is_not_one_json_document_is_rejected_whole(body: bytes, words: str) -> None:
    assert words in refusal_of(body)


def test_every_repeated_key_is_named_by_its_path() -> None:
    body = b'{"a": 1, "b": [{"c": 1, "c": 2, "c": 3}], "a": 2, "d": 1}'
    assert fields_at_fault(body) == ["a", "b[0].c"]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "9" * 21, "9" * 5000])
def test_a_number_that_is_not_finite_or_too_long_is_named(number: str) -> None:
    assert fields_at_fault(f'{{"a": {{"b": {number}}}}}'.encode()) == ["a.b"]


def test_half_of_a_surrogate_pair_is_named_in_values_and_keys() -> None:
    assert fields_at_fault(rb'{"a": ["x", "\ud800"], "b": "\ud83d\ude00"}') == ["a[1]"]
    assert fields_at_fault(rb'{"\udfff": 1}') == ["\udfff"]


def nested(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


def test_documents_may_be_nested_to_the_last_level_and_no_further() -> None:
    assert fields_at_fault(nested(MOST_LEVELS)) == []
    assert fields_at_fault(nested(MOST_LEVELS + 1)) == [".".join("a" * MOST_LEVELS)]


def refusing(*fields: str) -> Callable[[object], object]:
    def parse(_: object) -> object:
        raise StrictError(tuple(Problem(field=field, message="no") for field in fields))

    return parse


def test_faults_of_the_document_and_of_its_value_are_reported_together_and_once() -> None:
    document = read_document(b'{"a": NaN, "b": 1}')
    with pytest.raises(StrictError) as caught:
        document.parsed(refusing("a", "b"))
    assert [(each.field, each.message != "no") for each in caught.value.problems] == [
        ("a", True),
        ("b", False),
    ]


def test_a_faulty_document_is_rejected_although_it_can_be_parsed() -> None:
    with pytest.raises(StrictError):
        read_document(b'{"a": 1, "a": 1}').parsed(lambda value: value)
