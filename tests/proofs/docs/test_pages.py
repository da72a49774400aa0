"""All pages: their links have targets, their commands parse, and their blocks are valid shell."""

import re
from pathlib import PurePosixPath

import pytest

from tests.proofs.docs.command_lines import command_lines, commands, complaint_about
from tests.proofs.docs.pages import ROOT, Page, every_example, every_page, page_of
from tests.proofs.docs.walking import MARKS, SHELL, syntax_fault

PAGES = pytest.mark.parametrize("page", every_page(), ids=lambda page: page.name)


def broken_links(page: Page) -> list[str]:
    return [
        link for link in page.links if not re.match(r"[a-z]+:", link) and _is_broken(page, link)
    ]


def wrong_commands(page: Page) -> list[str]:
    return [fault for fault in map(complaint_about, command_lines(page)) if fault]


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


@pytest.mark.parametrize("page", [*every_page(), *every_example()], ids=lambda page: page.name)
def test_every_command_line_is_parsed(page: Page) -> None:
    assert wrong_commands(page) == []


def test_most_pages_show_commands() -> None:
    found = {page.name: len(list(command_lines(page))) for page in every_page()}
    assert found["README.md"] > 10
    assert found["docs/command-line.md"] > 50
    assert sum(map(bool, found.values())) > 10


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


def test_the_readme_names_every_command() -> None:
    page = page_of("README.md")
    named = {span.removeprefix("gpuruntime ").split()[0] for span in page.spans}
    assert len(commands()) > 20
    assert [sorted(names) for names in commands() if not names & named] == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param("`gpuruntime managre`", "invalid choice: 'managre'", id="command"),
        pytest.param("`gpuruntime units lst`", "invalid choice: 'lst'", id="verb"),
        pytest.param("`pools lst --watch`", "", id="words that are no command"),
        pytest.param("`pools list --wait`", "unrecognized arguments: --wait", id="flag of a verb"),
        pytest.param("`wait --for flies`", "invalid choice: 'flies'", id="verb without its noun"),
        pytest.param("`gpuruntime stock wait --timeout soon`", "'soon'", id="value"),
        pytest.param("`gpuruntime units get`", "", id="mention without its name"),
        pytest.param("`gpuruntime dev --state`", "", id="mention of a flag without its value"),
        pytest.param("```sh\ngpuruntime units get\n```", "required: NAME", id="block without it"),
        pytest.param(
            "```sh\nX=1 .venv/bin/gpuruntime audit --wrong && gpuruntime crds\n```",
            "unrecognized arguments: --wrong",
            id="between other commands",
        ),
        pytest.param("`gpuruntime ROLE --config FILE`", "", id="the reader's own words"),
        pytest.param("`gpuruntime manifests [minimal\\|full]`", "", id="a choice"),
        pytest.param(
            "`gpuruntime manifests [small\\|full]`", "invalid choice: 'small'", id="no choice"
        ),
    ],
)
def test_a_command_line_is_judged_as_the_program_would(text: str, fault: str) -> None:
    found = wrong_commands(Page("docs/planted.md", text))
    assert (len(found), fault in "".join(found)) == (bool(fault), True)


def test_headings_have_the_anchors_of_github() -> None:
    page = Page("docs/planted.md", "# One & two\n## `code`, *plain*\n## [Link](x)\n## Link\n")
    assert page.anchors == {"one--two", "code-plain", "link", "link-1"}
