"""The pages that are walked: what they tell to type works, and answers what they show."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.proofs.docs.pages import ROOT, Page, page_of
from tests.proofs.docs.walking import Walk
from tests.proofs.real_cluster.product import Process
from tests.rooms.roles.programs import Programs, programs

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
    pages = [*map(page_of, PAGES), said_by(dev)]
    with ThreadPoolExecutor(len(pages)) as threads:
        found = [line for each in threads.map(walk.faults, pages) for line in each]
    assert found == [], "\n".join(found)


def said_by(dev: Process) -> Page:
    """What dev itself tells a person to try, and a piece of what its function answers."""
    lines = [line for line in dev.log.read_text().splitlines() if line.startswith("  curl ")]
    assert len(lines) == 5
    shell = "\n".join(lines)
    return Page("dev", f'```sh\n{shell}\n```\n```text\n…{{"hello":"world"}}…\n```\n')


def test_no_page_asks_where_the_walk_does_not_lead() -> None:
    elsewhere = re.compile(r"127\.0\.0\.1:(?!8080)\d+|localhost:\d+")
    assert [name for name in PAGES if elsewhere.search(page_of(name).text)] == []
