"""What the page for developers lists: rooms in their order, and sessions."""

import ast
import re
import tomllib

from tests.proofs.docs.pages import ROOT, page_of

PAGE = page_of("docs/develop.md")
FILE = re.compile(r"[a-z_/]+\.(?:py|yaml)")


def test_the_rooms_stand_in_the_order_that_lint_holds() -> None:
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
        each.name
        for each in module.body
        if isinstance(each, ast.FunctionDef)
        and any(ast.unparse(decorator) == "nox.session" for decorator in each.decorator_list)
    }
    shown = {row[0].strip("`").removeprefix("nox -s ") for row in PAGE.table("session")}
    assert shown == sessions


def test_the_files_that_it_names_are_there() -> None:
    named = [each for each in PAGE.spans if FILE.fullmatch(each)]
    assert len(named) > 30
    assert [each for each in named if not is_there(each)] == []


def is_there(file: str) -> bool:
    is_whole = (ROOT / file).is_file()
    return is_whole or any(
        any((ROOT / room).glob(f"**/{file}")) for room in ("gpuruntime", "tests")
    )
