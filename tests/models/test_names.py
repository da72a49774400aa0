import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.models.names import cut_with_hash, is_dns_label, is_label_value

LABELS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,90}[a-z0-9])?", fullmatch=True)


def test_a_name_that_fits_stays_as_it_is() -> None:
    assert cut_with_hash("unit-a") == "unit-a"
    assert cut_with_hash("a" * 63) == "a" * 63


def test_two_long_names_with_one_beginning_stay_two() -> None:
    first, second = cut_with_hash("a" * 60 + "-first"), cut_with_hash("a" * 60 + "-second")
    assert first != second
    assert first[:50] == second[:50]


@given(LABELS)
def test_a_cut_name_is_a_label_and_is_always_cut_the_same(name: str) -> None:
    cut = cut_with_hash(name)
    assert is_dns_label(cut)
    assert cut == cut_with_hash(name)


@pytest.mark.parametrize("text", ["a", "a-b", "0", "a" * 63])
def test_labels(text: str) -> None:
    assert is_dns_label(text)


@pytest.mark.parametrize("text", ["", "-a", "a-", "A", "a.b", "a_b", "a" * 64, "ä", "a\n"])
def test_anything_else_is_no_label(text: str) -> None:
    assert not is_dns_label(text)


def test_a_label_value_may_be_empty_and_mixed() -> None:
    assert is_label_value("")
    assert is_label_value("A_b.c-1")
    assert not is_label_value("a/b")
    assert not is_label_value("-a")
