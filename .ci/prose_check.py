#!/usr/bin/env python3
"""Check that docstrings, comments and documents are plain sentences.

    python .ci/prose_check.py [PREFIX ...]

It prints each failure as `path:line: fault`, of the paths that begin with a PREFIX if any is
given, and exits with 1 if there is one. It finds the crudest faults alone: a docstring that
begins as a fragment, words of a dialect, and a sentence too long to be read at once.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
TREES: Final = ("gpuruntime", "tests", "examples", ".ci", "noxfile.py")
DOCUMENTS: Final = ("README.md", "CHANGELOG.md", "docs", "tests")
FRAGMENT: Final = frozenset(
    [
        "Of",
        "By",
        "In",
        "With",
        "Without",
        "For",
        "From",
        "Where",
        "Until",
        "As",
        "At",
        "On",
        "Between",
        "To",
        "After",
        "Before",
        "One",
        "Those",
        "These",
        "That",
        "What",
        "Whatever",
        "Which",
        "Who",
        "Whom",
        "Whose",
        "Whoever",
        "Whether",
        "Nobody",
        "Somebody",
        "Anybody",
        "So",
    ]
)
DIALECT: Final = re.compile(
    r"\b(who(?:m|s)?ever|whosever|somebody|anybody|nobody|anew|of which|so many|so long"
    r"|that of)\b",
    re.IGNORECASE,
)
MOST_WORDS: Final = 30
FIRST_WORD: Final = re.compile(r"[A-Za-z`]+")
SENTENCE_END: Final = re.compile(r"[.!?](?:\s|$)")
CODE: Final = re.compile(r"(?<=\])\([^)]*\)|`[^`]*`,?")
LITERAL: Final = re.compile(r"(?m)^( {4,}|>>> |\|).*$")
Fault = tuple[int, str]


def main(prefixes: Sequence[str]) -> int:
    """Print the failures, and return the exit code."""
    count = 0
    for path in sorted({*python_files(), *documents()}):
        where = path.relative_to(ROOT).as_posix()
        if not where.startswith(tuple(prefixes) or ""):
            continue
        text = path.read_text()
        for line, fault in sorted(in_python(text) if path.suffix == ".py" else in_markdown(text)):
            count += 1
            sys.stdout.write(f"{where}:{line}: {fault}\n")
    if count:
        sys.stdout.write(f"{count} sentences to rewrite; docs/develop.md says how prose reads\n")
    return 1 if count else 0


def python_files() -> Iterator[Path]:
    for tree in TREES:
        path = ROOT / tree
        yield from path.rglob("*.py") if path.is_dir() else [path]


def documents() -> Iterator[Path]:
    for each in DOCUMENTS:
        path = ROOT / each
        yield from path.rglob("*.md") if path.is_dir() else [path]


def in_python(source: str) -> Iterator[Fault]:
    """Yield the faults of a module's docstrings and comments."""
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, documented) and (text := ast.get_docstring(node)):
            line = getattr(node, "lineno", 1)
            yield from ((line, each) for each in faults_of(text, is_docstring=True))
    for line, comment in comments(source):
        yield from ((line, each) for each in faults_of(comment))


def comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield each comment with its first line; comments on adjacent lines are one."""
    block: list[str] = []
    first = last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        row, column = token.start
        is_whole_line = not token.line[:column].strip()
        if block and not (is_whole_line and row == last + 1):
            yield first, " ".join(block)
            block = []
        first = first if block else row
        block.append(token.string.lstrip("# "))
        last = row if is_whole_line else 0
    if block:
        yield first, " ".join(block)


def in_markdown(text: str) -> Iterator[Fault]:
    """Yield the faults of a document's paragraphs, list items and table cells."""
    for line, passage in passages(text):
        yield from ((line, each) for each in faults_of(passage))


def passages(text: str) -> Iterator[tuple[int, str]]:
    """Yield the prose of a document with its first line, without code and link targets."""
    lines: list[str] = []
    first, is_code = 1, False
    for number, raw in enumerate([*text.splitlines(), ""], start=1):
        is_fence = raw.lstrip().startswith("```")
        if is_fence:
            is_code = not is_code
        elif is_code or (raw.startswith("    ") and not lines):
            continue
        line = "" if is_fence else CODE.sub("", raw).strip()
        is_row, starts = line.startswith("|"), re.match(r"[-*#>|]|\d+\. ", line)
        if lines and (not line or starts):
            yield first, " ".join(lines)
            lines = []
        if is_row:
            yield from ((number, cell.strip()) for cell in line.split("|") if cell.strip())
        elif line:
            first = first if lines else number
            lines.append(re.sub(r"^([-*#>]+|\d+\.) ", "", line))


def faults_of(text: str, *, is_docstring: bool = False) -> Iterator[str]:
    """Yield what is wrong with one docstring, comment or passage."""
    first = FIRST_WORD.search(text)
    if is_docstring and first and first[0] in FRAGMENT:
        yield f"begins with {first[0]!r}"
    if found := DIALECT.search(text):
        yield f"says {found[0]!r}"
    prose = LITERAL.sub("", text)
    longest = max((len(each.split()) for each in SENTENCE_END.split(prose)), default=0)
    if longest > MOST_WORDS:
        yield f"has a sentence of {longest} words"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
