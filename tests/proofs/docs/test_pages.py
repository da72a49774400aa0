"""All pages: their links have targets, their commands exist, and their blocks are valid shell."""

import re
from pathlib import PurePosixPath

import pytest

from gpuruntime.cli import parser
from tests.proofs.docs.options import mistake_in
from tests.proofs.docs.pages import ROOT, Page, commands_in, every_page, page_of
from tests.proofs.docs.walking import MARKS, SHELL, syntax_fault

PAGES = pytest.mark.parametrize("page", every_page(), ids=lambda page: page.name)


def broken_links(page: Page) -> list[str]:
    return [
        link for link in page.links if not re.match(r"[a-z]+:", link) and _is_broken(page, link)
    ]


def wrong_commands(page: Page) -> list[str]:
    program = parser()
    faults = (mistake_in(program, words) for words in commands_in(page))
    return [fault for fault in faults if fault]


def _is_broken(page: Page, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = ROOT / PurePosixPath(page.name).parent / path
    if path and not target.exists():
        return True
    other = page_of(str(target.resolve().relative_to(ROOT))) if path and anchor else page
    return bool(anchor) and anchor not in other.anchors


@PAGES
def test_every_link_has_a_target(page: Page) -> None:
    assert broken_links(page) == []


@PAGES
def test_every_command_and_option_exists(page: Page) -> None:
    assert wrong_commands(page) == []


@PAGES
def test_shell_blocks_are_valid_and_their_marks_are_known(page: Page) -> None:
    shells = [block for block in page.blocks if block.language == SHELL]
    assert [block.place for block in shells if syntax_fault(block)] == []
    assert [block.place for block in shells if not set(block.marks) <= MARKS] == []


def test_a_link_without_a_target_is_found() -> None:
    text = (
        "# Title\n\n[a](nowhere.md) [b](#title) [c](#other) [d](concepts.md#claims) [e](https://x)"
    )
    planted = Page("docs/planted.md", f"{text} [f](concepts.md#nothing)")
    assert broken_links(planted) == ["nowhere.md", "#other", "concepts.md#nothing"]


def test_an_unknown_command_or_option_is_found() -> None:
    text = (
        "`gpuruntime dev --only cluster`, `gpuruntime managre`, `gpuruntime ROLE --config FILE`\n"
        "```sh\nX=1 .venv/bin/gpuruntime audit --wrong && gpuruntime crds\n```\n"
    )
    assert wrong_commands(Page("docs/planted.md", text)) == [
        "gpuruntime audit has no --wrong",
        "gpuruntime has no command managre",
    ]


def test_headings_have_the_anchors_of_github() -> None:
    page = Page("docs/planted.md", "# One & two\n## `code`, *plain*\n## [Link](x)\n## Link\n")
    assert page.anchors == {"one--two", "code-plain", "link", "link-1"}
