"""Ids of table rows are short and say what the row is."""

import pytest

from tests.row_ids import LONGEST, in_words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("limit=0", "limit=0"),
        ({"gpu": -1, "ports": [None]}, '{"gpu": -1, "ports": [null]}'),
        ((1, b"x"), "[1, \"b'x'\"]"),
        (b"GET \xff", "GET \\xff"),
        (ValueError("no port"), "ValueError no port"),
        (7, None),
        (True, None),
    ],
    ids=["text", "mapping", "tuple", "bytes", "error", "number", "truth value"],
)
def test_a_value_has_an_id_in_words(value: object, words: str | None) -> None:
    assert in_words(value) == words


def test_a_long_id_is_cut() -> None:
    assert in_words("x" * 300) == "x" * LONGEST + "..."
