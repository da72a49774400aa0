"""The page of guarantees: the tests that it names exist."""

import re

from tests.proofs.docs.pages import ROOT, page_of

TESTS = ROOT / "tests"
# A file, a file of the previously named folder, or a folder.
SHOWN = re.compile(r"(?:[a-z_]+/)+|(?:[a-z_]+/)*test_[a-z_]+\.py")


def test_every_test_that_the_page_names_exists() -> None:
    spans = page_of("docs/guarantees.md").spans
    shown = [each.removeprefix("tests/") for each in spans if SHOWN.fullmatch(each)]
    assert len(shown) > 100
    assert [each for each in shown if not any(TESTS.glob(f"**/{each}"))] == []
