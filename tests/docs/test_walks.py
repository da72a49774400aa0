"""The pages that are walked: what they tell to type works, and answers what they show."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, page_of
from tests.docs.walking import Walk
from tests.roles.programs import Programs, programs

# Side by side on one dev: what they make has names and flavours of their own.
PAGES = ("docs/walkthrough.md", "docs/serverless.md", "docs/invocations.md")
API = "http://127.0.0.1:8080"


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Programs]:
    with programs(tmp_path) as started:
        yield started


def test_every_block_does_what_its_page_says(program: Programs) -> None:
    dev = program.dev()
    walk = Walk(folder=ROOT, places={API: dev.address})
    with ThreadPoolExecutor(len(PAGES)) as threads:
        found = list(threads.map(walk.faults, map(page_of, PAGES)))
    assert found == [[]] * len(PAGES), "\n".join(line for each in found for line in each)


def test_no_page_asks_where_the_walk_does_not_lead() -> None:
    elsewhere = re.compile(r"127\.0\.0\.1:(?!8080)\d+|localhost:\d+")
    assert [name for name in PAGES if elsewhere.search(page_of(name).text)] == []
