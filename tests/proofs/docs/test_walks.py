"""Walks over the pages: every command works, and every answer is as shown."""

import os
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.proofs.docs.pages import ROOT, Page, page_of
from tests.proofs.docs.walking import Walk
from tests.proofs.real_cluster.product import Process
from tests.rooms.roles.programs import Programs, programs, suggested

# They run concurrently on one dev, since their objects have different names and specs.
PAGES = ("docs/walkthrough.md", "docs/serverless.md", "docs/invocations.md")
API = "http://127.0.0.1:8080"


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Programs]:
    with programs(tmp_path) as started:
        yield started


def test_every_block_answers_as_its_page_shows(program: Programs) -> None:
    dev = program.dev()
    walk = Walk(folder=ROOT, places={API: dev.address})
    pages = [*map(page_of, PAGES), said_by(dev)]
    with ThreadPoolExecutor(len(pages)) as threads:
        found = [line for each in threads.map(walk.faults, pages) for line in each]
    assert found == [], "\n".join(found)


@pytest.mark.serverless
def test_the_walk_through_the_gateway_works(program: Programs) -> None:
    dev = program.dev()
    here = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {"GPURUNTIME_SERVER": dev.address, "PATH": here}
    walk = Walk(folder=program.folder, environment=environment)
    assert walk.faults(page_of("docs/reach.md")) == []


def said_by(dev: Process) -> Page:
    """Return the commands that dev suggests as a page, with a part of its function's answer."""
    shell = "\n".join(suggested(dev.log.read_text()))
    return Page("dev", f'```sh\n{shell}\n```\n```text\n…{{\n  "hello": "world"\n}}…\n```\n')


def test_no_page_uses_another_local_address() -> None:
    elsewhere = re.compile(r"127\.0\.0\.1:(?!8080)\d+|localhost:\d+")
    assert [name for name in PAGES if elsewhere.search(page_of(name).text)] == []
