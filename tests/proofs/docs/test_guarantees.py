"""The page of promises: the tests that show them are there."""

import re

from tests.proofs.docs.pages import ROOT, page_of

TESTS = ROOT / "tests"
# A file, a file of the folder named before it, or a folder.
SHOWN = re.compile(r"(?:[a-z_]+/)+|(?:[a-z_]+/)*test_[a-z_]+\.py")


def test_every_test_that_is_named_is_there() -> None:
    spans = page_of("docs/guarantees.md").spans
    shown = [each.removeprefix("tests/") for each in spans if SHOWN.fullmatch(each)]
    assert len(shown) > 100
    assert [each for each in shown if not any(TESTS.glob(f"**/{each}"))] == []
