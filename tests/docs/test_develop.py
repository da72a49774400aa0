"""What the page for developers lists: rooms in their order, and sessions."""

import ast
import tomllib

from tests.docs.pages import ROOT, page_of

PAGE = page_of("docs/develop.md")


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
