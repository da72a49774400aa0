"""Valid names, and names that are cut without collisions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.models.kubernetes.names import (
    cut_with_hash,
    is_dns_label,
    is_dns_subdomain,
    is_label_key,
    is_label_value,
    label_value_of,
)

LABELS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,90}[a-z0-9])?", fullmatch=True)


def test_a_name_that_fits_stays_as_it_is() -> None:
    assert cut_with_hash("unit-a") == "unit-a"
    assert cut_with_hash("a" * 63) == "a" * 63


def test_two_long_names_with_a_common_prefix_stay_different() -> None:
    first, second = cut_with_hash("a" * 60 + "-first"), cut_with_hash("a" * 60 + "-second")

    assert first != second
    assert first[:50] == second[:50]


@given(LABELS, st.sampled_from([52, 63]))
def test_a_cut_name_is_a_label_and_is_always_the_same(name: str, longest: int) -> None:
    cut = cut_with_hash(name, longest=longest)

    assert is_dns_label(cut, longest=longest)
    assert cut == cut_with_hash(name, longest=longest)


def test_a_cut_beside_a_hyphen_leaves_a_single_hyphen() -> None:
    assert "--" not in cut_with_hash("a" * 48 + "-" * 10 + "b" * 10)


@pytest.mark.parametrize("text", ["a", "a-b", "0", "a--b", "a" * 63])
def test_a_label_is_lower_case_letters_digits_and_inner_hyphens(text: str) -> None:
    assert is_dns_label(text)
    assert is_dns_subdomain(text)


@pytest.mark.parametrize("text", ["", "-a", "a-", "A", "a.b", "a_b", "a" * 64, "ä", "a\n"])
def test_any_other_text_is_not_a_label(text: str) -> None:
    assert not is_dns_label(text)


@pytest.mark.parametrize("text", ["a.b", "example.org", "a" * 253, "0.0"])
def test_a_subdomain_is_labels_with_dots_between(text: str) -> None:
    assert is_dns_subdomain(text)


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", "a.-b", "A.b", "a" * 254, "a.b\n"])
def test_any_other_text_is_not_a_subdomain(text: str) -> None:
    assert not is_dns_subdomain(text)


@pytest.mark.parametrize("text", ["", "A_b.c-1", "0", "a" * 63])
def test_a_label_value_may_be_empty_and_mixed(text: str) -> None:
    assert is_label_value(text)


@pytest.mark.parametrize("text", ["a/b", "-a", "a-", "_", "a" * 64, "a b", "a\n"])
def test_any_other_text_is_not_a_label_value(text: str) -> None:
    assert not is_label_value(text)


@pytest.mark.parametrize("text", ["app", "App_1", "example.org/app", f"{'a' * 253}/{'b' * 63}"])
def test_a_label_key_is_a_name_that_may_have_a_domain(text: str) -> None:
    assert is_label_key(text)


@pytest.mark.parametrize(
    "text", ["", "/", "/app", "example.org/", "a..b/app", "a/b/c", "A/app", "-a", "b" * 64]
)
def test_any_other_text_is_not_a_label_key(text: str) -> None:
    assert not is_label_key(text)


@pytest.mark.parametrize("text", ["echo", "-echo", "_", "echo-", "-" * 63])
def test_every_text_has_a_label_value_of_its_own(text: str) -> None:
    value = label_value_of(text)
    assert is_label_value(value)
    assert (value == text) == is_label_value(text)
    assert value != label_value_of(f"{text}x")
