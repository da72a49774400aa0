"""What the product's source says of its steps: what a function awaits, and what it writes."""

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import NamedTuple

WRITES = frozenset({"create", "patch", "delete"})


class Write(NamedTuple):
    """A write of a client, with the names of the arguments that guard it."""

    function: str
    verb: str
    guards: frozenset[str]


GUARDS = frozenset({"uid", "resource_version"})


def awaited(module: str, function: str) -> tuple[str, ...]:
    """The names of the calls that the function awaits, in the order in which they stand."""
    found = [
        each for each in ast.walk(_functions(module)[function]) if isinstance(each, ast.Await)
    ]
    found.sort(key=lambda each: (each.lineno, each.col_offset))
    calls = [each.value for each in found if isinstance(each.value, ast.Call)]
    return tuple(_name(each) for each in calls)


def writes(module: str) -> Iterator[Write]:
    """Whatever the module's functions write through a client."""
    for name, function in _functions(module).items():
        for each in ast.walk(function):
            if isinstance(each, ast.Call) and _is_write(each):
                guards = GUARDS & {keyword.arg for keyword in each.keywords if keyword.arg}
                yield Write(name, _name(each), guards)


@cache
def _functions(module: str) -> dict[str, ast.AsyncFunctionDef | ast.FunctionDef]:
    """By name, those of a class behind the name of the class."""
    tree = ast.parse(inspect.getsource(import_module(module)))
    found = {}
    for node in tree.body:
        owner = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        for each in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(each, ast.AsyncFunctionDef | ast.FunctionDef):
                found[owner + each.name] = each
    return found


def _is_write(call: ast.Call) -> bool:
    target = call.func
    return (
        isinstance(target, ast.Attribute)
        and target.attr in WRITES
        and ast.unparse(target.value).rpartition(".")[2].strip("_") == "client"
    )


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
