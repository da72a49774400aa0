"""All counts in the product's sources, with their names and labels."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import attrs

from gpuruntime.telemetry.metric import Kind

SOURCES = Path(__file__).parents[3] / "gpuruntime"
VERBS = {
    "count": Kind.COUNTER,
    "gauge": Kind.GAUGE,
    "observe": Kind.HISTOGRAM,
    "gauge_from": Kind.GAUGE,
}
# Names of attributes that hold a meter; the last one adds its own label.
METERS = ("meter", "registry", "source")


@attrs.frozen
class Counting:
    """A count in the sources. `is_whole` says that all of its labels are known."""

    name: str
    kind: Kind
    labels: frozenset[str]
    is_whole: bool
    where: str


@cache
def countings() -> tuple[Counting, ...]:
    return tuple(_read())


def _read() -> Iterator[Counting]:
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and _is_counting(node):
                yield from _of(node, f"{path.relative_to(SOURCES)}:{node.lineno}")


def _is_counting(call: ast.Call) -> bool:
    function = call.func
    if not isinstance(function, ast.Attribute) or function.attr not in VERBS or not call.args:
        return False
    return _last_name(function.value).endswith(METERS)


def _of(call: ast.Call, where: str) -> Iterator[Counting]:
    """Yield each name that the first argument may have, but no name that is passed through."""
    assert isinstance(call.func, ast.Attribute)
    own = {keyword.arg for keyword in call.keywords if keyword.arg}
    is_whole = call.func.attr != "gauge_from" and all(keyword.arg for keyword in call.keywords)
    if _last_name(call.func.value).endswith("source"):
        own.add("mirror")
    for node in ast.walk(call.args[0]):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            kind = VERBS[call.func.attr]
            yield Counting(node.value, kind, frozenset(own), is_whole, where)


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
