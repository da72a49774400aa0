"""Quantities are exact, compare by value and read as the API server reads them."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.models.kubernetes.quantities import (
    EXBIBYTE,
    Format,
    InvalidQuantityError,
    Quantity,
    is_quantity,
    parse_quantity,
)

FACTORS = {
    suffix: Fraction(str(factor))
    for suffix, factor in {
        "n": "1/1000000000", "u": "1/1000000", "m": "1/1000", "": "1",
        "k": "1e3", "M": "1e6", "G": "1e9", "T": "1e12", "P": "1e15", "E": "1e18",
        "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60,
        "e3": "1e3", "E-3": "1e-3", "e+2": "1e2",
    }.items()
}  # fmt: skip


@pytest.mark.parametrize(("suffix", "factor"), FACTORS.items())
def test_every_suffix_has_its_factor(suffix: str, factor: Fraction) -> None:
    assert parse_quantity(f"2{suffix}").nanos == 2 * factor * 10**9


@pytest.mark.parametrize(
    ("one", "other"),
    [("1Gi", "1073741824"), ("1000m", "1"), ("0.5", "500m"), ("1e3", "1k"), ("1.5Gi", "1536Mi"),
     ("-0", "0"), ("+1", "1"), (".5", "500m"), ("5.", "5"), ("007", "7")],
)  # fmt: skip
def test_quantities_of_one_value_are_equal_however_they_are_written(one: str, other: str) -> None:
    assert parse_quantity(one) == parse_quantity(other)
    assert hash(parse_quantity(one)) == hash(parse_quantity(other))


@pytest.mark.parametrize(
    ("text", "kept"), [("1n", "1m"), ("-1n", "-1m"), ("1001u", "2m"), ("1m", "1m"), ("0", "0")]
)
def test_parts_below_a_thousandth_are_rounded_away_from_zero(text: str, kept: str) -> None:
    assert str(parse_quantity(text).in_whole_millis) == kept


def test_quantities_are_ordered_by_value() -> None:
    written = ["-1", "0", "1n", "1m", "999m", "1", "1k", "1Ki", "1E", "1Ei"]

    assert sorted(map(parse_quantity, reversed(written))) == list(map(parse_quantity, written))


@pytest.mark.parametrize(
    "text",
    ["", " ", "16GiB", "1 ", " 1", "1 Gi", "1\n", "1_000", "+", "-", ".", "+-1", "Ki",
     "\N{FULLWIDTH DIGIT ONE}", "\N{ARABIC-INDIC DIGIT THREE}Gi",
     "1.1.M", "1+1.0M", "0.1mi", "aoeu", ".5i", "1i", "-3.01e-", "1e", "1e1.5", "1e1000",
     "1e999999999999", "1KI", "1ki", "1K", "0x10", "1,5", "NaN", "inf", "9" * 129],
)  # fmt: skip
def test_a_text_that_is_not_a_quantity_is_rejected(text: str) -> None:
    assert not is_quantity(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "quantity '' has no number in front: write one such as 500m, 2 or 16Gi"),
        (
            "16GiB",
            (
                "quantity '16GiB' has the unknown suffix 'GiB': "
                "use one of n u m k M G T P E or Ki Mi Gi Ti Pi Ei"
            ),
        ),
        ("1e4000", "quantity '1e4000' has an exponent beyond 999: nothing is that large"),
    ],
)
def test_a_rejection_says_what_to_write(text: str, message: str) -> None:
    with pytest.raises(InvalidQuantityError) as raised:
        parse_quantity(text)

    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("text", "canonical"),
    [("1000m", "1"), ("1500m", "1500m"), ("1.5", "1500m"), ("0.0000000001", "1n"), ("0Gi", "0"),
     ("1024Mi", "1Gi"), ("1.5Gi", "1536Mi"), ("1023Ki", "1023Ki"), ("0.1Ki", "102400m"),
     ("512", "512"), ("0.5Ki", "512"), ("1e3", "1e3"), ("100e1", "1e3"), ("12e6", "12e6"),
     ("1e0", "1"), ("1000E", "1e21"), ("-1Gi", "-1Gi"), ("-1500", "-1500"), ("2000k", "2M"),
     ("100", "100"), ("1000000", "1M"), ("8Ei", "9223372036854775807"), ("-0.5", "-500m")],
)  # fmt: skip
def test_the_canonical_form_is_that_of_the_api_server(text: str, canonical: str) -> None:
    assert str(parse_quantity(text)) == canonical


@pytest.mark.parametrize(
    ("text", "nanos"),
    [("0.9n", 1), ("-0.9n", -1), ("1.1n", 2), ("1e-999", 1), ("1e-9999999", 1), ("0.0n", 0)],
)
def test_parts_below_a_billionth_are_rounded_away_from_zero(text: str, nanos: int) -> None:
    assert parse_quantity(text).nanos == nanos


def test_a_binary_quantity_is_capped_as_the_api_server_caps_it() -> None:
    assert parse_quantity("9Ei") == parse_quantity("20Ei") == parse_quantity(str(2**63 - 1))
    assert parse_quantity("-9Ei") == parse_quantity(str(1 - 2**63))


@pytest.mark.parametrize(
    ("text", "units", "millis"),
    [("1", 1, 1000), ("1m", 1, 1), ("1500u", 1, 2), ("2.5", 3, 2500), ("1Ki", 1024, 1024_000)],
)
def test_whole_numbers_are_rounded_up(text: str, units: int, millis: int) -> None:
    quantity = parse_quantity(text)

    assert (quantity.rounded_up, quantity.millis_rounded_up) == (units, millis)


@pytest.mark.parametrize(
    ("text", "is_inside"),
    [
        ("0", False),
        ("-1", False),
        ("1n", True),
        ("1023Pi", True),
        ("1Ei", False),
        ("1e999", False),
    ],
)
def test_a_quantity_of_an_envelope_is_positive_and_below_its_limit(
    text: str, is_inside: bool
) -> None:
    assert parse_quantity(text).is_positive_below(EXBIBYTE) is is_inside


@given(
    sign=st.sampled_from(["", "+", "-"]),
    whole=st.text("0123456789", min_size=1, max_size=12),
    fraction=st.text("0123456789", max_size=9),
    suffix=st.sampled_from(sorted(FACTORS)),
)
def test_a_written_number_is_exact_to_the_billionth(
    sign: str, whole: str, fraction: str, suffix: str
) -> None:
    exact = Fraction(f"{whole}.{fraction or 0}") * FACTORS[suffix]
    if suffix.endswith("i"):
        exact = min(exact, Fraction(2**63 - 1))

    quantity = parse_quantity(f"{sign}{whole}.{fraction}{suffix}")

    assert 0 <= abs(quantity.nanos) - exact * 10**9 < 1
    assert quantity.nanos <= 0 if sign == "-" else quantity.nanos >= 0


@given(st.integers(-(10**30), 10**30), st.sampled_from(Format))
def test_a_printed_quantity_reads_back_as_the_same_value(nanos: int, written: Format) -> None:
    bounded = min(max(nanos, 1 - 2**63), 2**63 - 1) if written is Format.BINARY else nanos
    quantity = Quantity(nanos=bounded, format=written)

    assert parse_quantity(str(quantity)) == quantity


@given(st.text(max_size=20))
def test_any_text_raises_at_most_a_rejection(text: str) -> None:
    assert is_quantity(text) in {True, False}
