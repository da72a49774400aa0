"""The page for developers: its lists of rooms, sessions, files and changes."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tests.proofs.docs.pages import ROOT, page_of

PAGE = page_of("docs/develop.md")
FILE = re.compile(r"[a-z_./]+\.(?:py|yaml)")
FOLDER = re.compile(r"[a-z_]+(?:/[a-z_]+)*/")


def test_the_rooms_are_in_the_order_that_lint_enforces() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (order,) = (
        contract["layers"]
        for contract in pyproject["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    )
    rooms = [each.strip("() ") for layer in order for each in layer.split("|")]
    shown = [each.strip("` ") for row in PAGE.table("room") for each in row[0].split(",")]
    assert shown == rooms


def test_the_sessions_are_those_of_nox() -> None:
    module = ast.parse((ROOT / "noxfile.py").read_text())
    sessions = {
        each.name.replace("_", "-")
        for each in module.body
        if isinstance(each, ast.FunctionDef)
        and any("nox.session" in ast.unparse(decorator) for decorator in each.decorator_list)
    }
    shown = {row[0].strip("`").removeprefix("nox -s ") for row in PAGE.table("session")}
    assert shown == sessions


def test_the_files_that_it_names_exist() -> None:
    named = [each for each in PAGE.spans if FILE.fullmatch(each)]
    assert len(named) > 80
    assert [each for each in named if not list(found(each))] == []


def test_the_folders_that_it_names_exist() -> None:
    named = [each for each in PAGE.spans if FOLDER.fullmatch(each)]
    assert len(named) > 20
    assert [each for each in named if not list(found(each))] == []


def test_the_map_says_where_a_line_goes_for_the_frequent_changes() -> None:
    assert len(PAGE.table("change", "files, in this order")) >= 15


def found(path: str) -> Iterator[Path]:
    """Yield the files or folders that a path of the page may mean: from the root or a room."""
    for top in (ROOT, ROOT / "gpuruntime", ROOT / "tests"):
        yield from top.glob(path if "/" in path else f"**/{path}")
