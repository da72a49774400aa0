"""The command lines of this program that pages show, judged by its own parser of arguments."""

import argparse
import io
import re
import shlex
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import cache

import attrs

from gpuruntime.cli import parser
from tests.proofs.docs.pages import Block, Page

PROGRAM = "gpuruntime"
PROMPT = "$ "
# Separators between two commands of one shell line.
BETWEEN = re.compile(r"&&|\|\||[;|()]|\$\(")
ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
OPTIONAL = re.compile(r"\[([^\]|\\]*)[^\]]*\]")
# The reader's own words, where the parser wants a word of its own or a number.
STANDS_FOR = {"NOUN": "units", "VERB": "list", "ROLE": "manager", "SECONDS": "1", "TIME": "1"}


@attrs.frozen(kw_only=True)
class CommandLine:
    """The arguments after the program's name; a mention in a sentence may leave some out."""

    words: tuple[str, ...]
    is_mention: bool

    def __str__(self) -> str:
        return shlex.join((PROGRAM, *self.words))


def command_lines(page: Page) -> Iterator[CommandLine]:
    """Yield every command line of the program that the page shows or mentions."""
    shown = [line for block in page.blocks for line in lines_of(block)]
    if not page.blocks:
        shown = [line.lstrip("# ").partition(":")[0] for line in page.text.splitlines()]
    for line in shown:
        yield from _command_lines(line, is_mention=False)
    for span in page.spans:
        yield from _mentions(whole(OPTIONAL.sub(r"\1", span)))


def whole(span: str) -> str:
    """Return the span with the program and the noun that a sentence left out before it."""
    first, _, rest = span.partition(" ")
    second = rest.split(" ")[0]
    candidates = [
        f"{above} {span}"
        for above, below in _above().get(first, ())
        if second and (second in below or second.startswith("-"))
    ]
    accepted = (each for each in candidates if not any(map(complaint_about, _mentions(each))))
    return next(accepted, candidates[0] if candidates else span)


def lines_of(block: Block) -> Iterator[str]:
    """Yield the typed lines; those of a console session have a prompt."""
    for line in block.text.replace("\\\n", " ").splitlines():
        if block.language in ("", "sh"):
            yield line
        elif block.language == "console" and line.startswith(PROMPT):
            yield line.removeprefix(PROMPT)


def commands_in(line: str) -> Iterator[list[str]]:
    """Yield the words of each command of a shell line, without leading assignments."""
    for part in BETWEEN.split(line):
        words = _words(part)
        while words and ASSIGNMENT.match(words[0]):
            words = words[1:]
        if words:
            yield words


def commands() -> list[set[str]]:
    """Return the names of each command of the program; several names may stand for one."""
    found: dict[argparse.ArgumentParser, set[str]] = defaultdict(set)
    for name, below in _commands(strict()).items():
        found[below].add(name)
    return list(found.values())


def complaint_about(line: CommandLine) -> str:
    """Return what the program's parser says against the line, or an empty text."""
    words = [STANDS_FOR.get(word, word) for word in line.words if word != "…"]
    said = complaint_of(lenient() if line.is_mention else strict(), words)
    return f"{line}: {said}" if said else ""


def complaint_of(program: argparse.ArgumentParser, words: Sequence[str]) -> str:
    said = io.StringIO()
    with redirect_stderr(said), redirect_stdout(said):
        try:
            program.parse_args(words)
        except SystemExit as end:
            return said.getvalue().splitlines()[-1] if end.code else ""
    return ""


def _command_lines(line: str, *, is_mention: bool) -> Iterator[CommandLine]:
    for words in commands_in(line):
        if words[0].rpartition("/")[2] == PROGRAM:
            yield CommandLine(words=tuple(words[1:]), is_mention=is_mention)


def _mentions(line: str) -> Iterator[CommandLine]:
    return _command_lines(line, is_mention=True)


strict = cache(parser)


@cache
def lenient() -> argparse.ArgumentParser:
    """Return a parser that requires nothing, and otherwise takes what the program takes."""
    program = parser()
    for each in parsers(program):
        for action in each._actions:
            action.required = False
            if isinstance(action, argparse._StoreAction | argparse._AppendAction):
                action.nargs = "*" if action.nargs == "+" else action.nargs or "?"
    return program


@cache
def _above() -> Mapping[str, list[tuple[str, Collection[str]]]]:
    """Return by name the commands that have one of this name below, and what is below that."""
    found: dict[str, list[tuple[str, Collection[str]]]] = defaultdict(list)
    for each in parsers(strict()):
        for name, below in _commands(each).items():
            found[name].append((each.prog, _commands(below)))
    return found


def parsers(program: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield the parser of the program and those of all its commands."""
    yield program
    for below in _commands(program).values():
        yield from parsers(below)


def _commands(program: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    found: dict[str, argparse.ArgumentParser] = {}
    for action in program._actions:
        if isinstance(action, argparse._SubParsersAction):
            found.update(action.choices)
    return found


def _words(text: str) -> list[str]:
    """Return no words if a quote is open, because the text was split within an argument."""
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        return []
