"""Facts that pages state of the product, of a few kinds that a test can look up.

A name in backticks is a fact, whatever it is: the shape of the text decides its kind. Metrics,
labels, variables and errors have shapes of their own, and count wherever they stand.
"""

import re
from collections.abc import Iterator
from enum import StrEnum

import attrs

from tests.proofs.docs.command_lines import PROMPT, commands_in, lines_of, whole
from tests.proofs.docs.pages import Page


class Kind(StrEnum):
    """The kinds of facts; those in backticks are in the order in which shapes are tried."""

    METRIC = "metric"
    LABEL = "label"
    VARIABLE = "variable"
    ERROR = "error with its status"
    CONDITION = "condition"
    KUBECTL = "line of kubectl"
    TOOL = "line of another tool"
    ROUTE = "route"
    FLAG = "flag"
    MEMBER = "member with its value"
    MESSAGE = "message"
    NAME = "name"


ANYWHERE = {
    Kind.METRIC: re.compile(r"\bgpuruntime_[a-z_]+(?:\{[^}]*\})?|(?<=`)_[a-z_]+(?=`)"),
    Kind.LABEL: re.compile(r"(?:[a-z-]+\.)*(?:lokiwager|kubernetes)\.io/[\w.-]+(?:=\w[\w-]*)?"),
    Kind.VARIABLE: re.compile(r"\bGPURUNTIME_[A-Z_]+"),
    Kind.ERROR: re.compile(r"\b[1-5]\d\d `[a-z]+(?:_[a-z]+)+`"),
    Kind.CONDITION: re.compile(r"(?<=ondition `)[A-Z]\w+"),
}
LABEL_OF_METRIC = re.compile(r"`(gpuruntime_\w+)` by `(\w+)`")
SHAPES = {
    Kind.KUBECTL: re.compile(r"kubectl .+"),
    Kind.TOOL: re.compile(r"(?:nats|nox|podman|cargo|chmod|umask|export|source) .+"),
    Kind.ROUTE: re.compile(
        r"(?:(?:GET|PUT|POST|PATCH|DELETE) |curl )?(?:…|https?://127[\d.]+:8080)?(?:/|\?\w).*"
    ),
    Kind.FLAG: re.compile(r"--?[a-z].*"),
    Kind.MEMBER: re.compile(r"[\w./-]+(?:: |=)[^\s,…]+"),
    Kind.MESSAGE: re.compile(r".*[ …<{*].*"),
    Kind.NAME: re.compile(r".+"),
}
# Values of settings and fields, and names with a digit, such as flavours, which readers choose.
VALUE = re.compile(r'[\d:"\[].*|[a-z]+\d[\w.-]*|\{\}|[~./]+|[a-z]+://.*|[\w.]+/[\w/.-]+:[\w.]+')
CALL = re.compile(r"([\w.]+)\((.*)\)")
KEYWORD = re.compile(r"(\w+)=")
QUOTED = re.compile(r'"(\w+)"')
MAPPING = re.compile(r"\{.*[\":].*\}")
BLOCK_ROUTE = re.compile(r"(?:-X ([A-Z]+) )?[\"']?(?:\$api|https?://127[\d.]+:8080)(/[^\s\"']*)")

COLUMN = re.compile(r"[Cc]olumns? `([^`]+)`(?: and `([^`]+)`)? of `([^`]+)`")
HEADER = re.compile(r"[A-Z]+(?: [A-Z]+)*(?: {3,}[A-Z]+(?: [A-Z]+)*)+")


@attrs.frozen
class Fact:
    page: str
    kind: Kind
    text: str

    def __str__(self) -> str:
        return f"{self.page}: {self.kind} {self.text}"


@attrs.frozen
class Columns:
    """Columns that a page says a command prints; a header that it shows has all of them."""

    page: str
    command: str
    names: tuple[str, ...]
    is_header: bool


def columns_of(page: Page) -> Iterator[Columns]:
    for *names, command in COLUMN.findall(page.prose):
        yield Columns(page.name, command, tuple(filter(None, names)), is_header=False)
    for block in page.blocks:
        command = ""
        for line in block.text.splitlines():
            if line.startswith(PROMPT):
                command = line.removeprefix(PROMPT)
            elif command and (names := header_of(line)):
                yield Columns(page.name, command, names, is_header=True)


def header_of(line: str) -> tuple[str, ...]:
    """Return the columns that a line names, or nothing if it is no header of a table."""
    return tuple(re.split(" {3,}", line.strip())) if HEADER.fullmatch(line.strip()) else ()


def facts_of(page: Page) -> Iterator[Fact]:
    for kind, text in _found(page):
        yield Fact(page.name, kind, text)


def _found(page: Page) -> Iterator[tuple[Kind, str]]:
    for kind, shape in ANYWHERE.items():
        for match in shape.finditer(page.text):
            yield kind, match[0]
    for metric, label in LABEL_OF_METRIC.findall(page.text):
        yield Kind.METRIC, f"{metric}{{{label}}}"
    for span in page.spans:
        yield from _in_span(span.replace("\\|", "|"))
    for block in page.blocks:
        for line in lines_of(block):
            for words in commands_in(line):
                if words[0] == "kubectl":
                    yield Kind.KUBECTL, " ".join(words)
            for method, path in BLOCK_ROUTE.findall(line):
                yield Kind.ROUTE, f"{method} {path}".strip()


def _in_span(span: str) -> Iterator[tuple[Kind, str]]:
    """Yield the facts of a span, unless it is a command, a value, or a fact anywhere."""
    if whole(span).startswith("gpuruntime ") or VALUE.fullmatch(span):
        return
    if any(shape.search(f"`{span}`") for shape in ANYWHERE.values()):
        return
    if call := CALL.fullmatch(span):
        yield from ((Kind.NAME, each) for each in (call[1], *KEYWORD.findall(call[2])))
    elif MAPPING.fullmatch(span):
        yield from ((Kind.NAME, each) for each in QUOTED.findall(span))
    else:
        kind = next(kind for kind, shape in SHAPES.items() if shape.fullmatch(span))
        yield kind, span
