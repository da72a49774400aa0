"""First steps lead with a pool that refills: seeded stock is gone after its first claim."""

import re

import pytest

from tests.proofs.docs.pages import ROOT

POOL = re.compile(r"POST \S*/operator/stockpools|gpuruntime pools create|client\.pools\.create")
SEED = re.compile(r"POST \S*/operator/stock-units|gpuruntime stock seed|client\.stock\.seed")
PLACES = (
    "README.md",
    "docs/walkthrough.md",
    "docs/serverless.md",
    "docs/command-line.md",
    "docs/client.md",
    "examples/function.sh",
)


@pytest.mark.parametrize("place", PLACES)
def test_stock_comes_from_a_pool_that_refills_before_any_is_seeded(place: str) -> None:
    text = (ROOT / place).read_text()
    pool, seed = POOL.search(text), SEED.search(text)
    assert pool is not None
    assert seed is None or pool.start() < seed.start()


def test_the_concepts_say_what_seeding_is_for() -> None:
    text = (ROOT / "docs/concepts.md").read_text()
    assert "`gpuruntime stock seed`) creates a `Never` pool: it is for a fixed allotment" in text
