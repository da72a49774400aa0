"""Labels and annotations are read safely, even if they were written by hand."""

import pytest

from gpuruntime.models.kinds import labels, provenance
from gpuruntime.models.kinds.envelopes import envelope_of
from gpuruntime.models.kinds.units import GPUUnitSpec
from gpuruntime.models.kubernetes.metadata import Key
from tests.rooms.operations.units import CLAIMANT, MOMENT, claimed, stock


def test_a_claim_has_its_claimant_and_its_time() -> None:
    unit = claimed(attempt="a.7")
    assert provenance.is_claimed(unit)
    assert provenance.claimant_of(unit) == CLAIMANT
    assert provenance.attempt_of(unit) == "a.7"
    assert provenance.claimed_at(unit) == MOMENT
    assert provenance.is_of(unit, "one", "h1")
    assert not provenance.is_of(unit, "one", "h2")


def test_an_unclaimed_unit_has_no_claimant_and_no_time() -> None:
    unit = stock()
    assert not provenance.is_claimed(unit)
    assert provenance.claimant_of(unit) is None
    assert provenance.claimed_at(unit) is None
    assert provenance.operation_of(unit) == provenance.attempt_of(unit) == ""


@pytest.mark.parametrize(
    "moment", ["yesterday", "2026-03-01", "2026-03-01T12:00:00", "0001-01-01T00:00:00+14:00"]
)
def test_unreadable_marks_give_no_names_and_no_times(moment: str) -> None:
    unit = stock(annotations={labels.CLAIMED_BY: "nobody", labels.CLAIMED_AT: moment})
    assert provenance.is_claimed(unit)
    assert provenance.claimant_of(unit) is None
    assert provenance.claimed_at(unit) is None


def test_a_source_is_a_key() -> None:
    unit = stock(annotations={labels.SOURCE_STOCK: "runtime-stock/p-1"})
    assert provenance.source_of(unit) == Key("runtime-stock", "p-1")


@pytest.mark.parametrize(
    "text", ["", "/", "a/", "/b", "a/b/c", "a/../b", "a/b?c", "a/b\n", "A/b", f"a/{'b' * 64}"]
)
def test_a_text_that_names_no_object_is_no_key(text: str) -> None:
    unit = stock(annotations={labels.SOURCE_STOCK: text, labels.CLAIMED_BY: text})
    assert provenance.source_of(unit) is None
    assert provenance.claimant_of(unit) is None


@pytest.mark.parametrize(
    ("name", "ordinal"),
    [("p-7", 7), ("p-9999999999", 9_999_999_999), ("p-10000000000", 0), (f"p-{'9' * 5000}", 0)],
)
def test_an_ordinal_has_no_more_digits_than_pools_use(name: str, ordinal: int) -> None:
    """Python reads no number of thousands of digits, and the API server none of twenty."""
    taker = stock(annotations={labels.SOURCE_STOCK: f"runtime-stock/{name}"})
    assert provenance.ordinal_of(stock(name)) == ordinal
    assert provenance.source_ordinal(taker) == ordinal


@pytest.mark.parametrize(
    ("one", "other", "is_equal"),
    [
        ({"memory": "1Gi"}, {"memory": "1024Mi"}, True),
        ({"cpu": "0.5"}, {"cpu": "500m"}, True),
        ({"cpu": "x"}, {"cpu": "x"}, True),
        ({"cpu": "x"}, {"cpu": "y"}, False),
        ({"cpu": "1"}, {}, False),
        ({"gpu": 1}, {"gpu": 2}, False),
        ({"gpuProduct": "A100"}, {"gpuProduct": "H100"}, False),
        ({"image": "a"}, {"image": "b"}, True),
    ],
    ids=str,
)
def test_envelopes_are_equal_by_value(
    one: dict[str, str], other: dict[str, str], is_equal: bool
) -> None:
    first, second = (
        envelope_of(GPUUnitSpec(specName="g1", **members))  # type: ignore[arg-type]  # a table
        for members in (one, other)
    )
    assert (first == second) is is_equal


def test_an_envelope_may_equal_one_with_open_members() -> None:
    bare = envelope_of(GPUUnitSpec(specName="g1", gpu=1))
    filled = envelope_of(GPUUnitSpec(specName="g1", gpu=1, cpu="1", memory="1Gi"))
    larger = envelope_of(GPUUnitSpec(specName="g1", gpu=2, cpu="1", memory="1Gi"))
    assert bare.may_equal(filled)
    assert filled.may_equal(bare)
    assert not bare.may_equal(larger)


def test_an_envelope_of_any_product_is_another_one_than_that_of_a_named_product() -> None:
    any_product = envelope_of(GPUUnitSpec(specName="g1", gpu=1))
    one_product = envelope_of(GPUUnitSpec(specName="g1", gpu=1, gpuProduct="H100"))
    assert not any_product.may_equal(one_product)
    assert not one_product.may_equal(any_product)
