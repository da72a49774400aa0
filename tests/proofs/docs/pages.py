"""The parts of a documentation page: blocks of code, links, headings, tables."""

import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import attrs

ROOT = Path(__file__).parents[3]
FENCE = re.compile(r"\s*```(.*)")
HEADING = re.compile(r"#{1,6} +(.*)")
LINK = re.compile(r"\]\(([^)\s]+)\)")
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")


@attrs.frozen(kw_only=True)
class Block:
    """A fenced block; `marks` are the words after its language, which readers do not see."""

    page: str
    line: int
    language: str
    marks: tuple[str, ...]
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


@attrs.frozen
class Page:
    name: str
    text: str

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        return tuple(self._blocks())

    @cached_property
    def prose(self) -> str:
        """Return the page without its blocks."""
        inside, kept = False, []
        for line in self.text.splitlines():
            if FENCE.fullmatch(line):
                inside = not inside
            elif not inside:
                kept.append(line)
        return "\n".join(kept)

    @property
    def links(self) -> list[str]:
        return LINK.findall(self.prose)

    @property
    def spans(self) -> list[str]:
        return SPAN.findall(self.prose)

    @property
    def anchors(self) -> set[str]:
        """Return the anchors that GitHub derives from headings; equal ones are numbered."""
        found: list[str] = []
        for line in self.prose.splitlines():
            if heading := HEADING.fullmatch(line):
                slug = slug_of(heading[1])
                count = sum(
                    re.fullmatch(rf"{re.escape(slug)}(-\d+)?", each) is not None for each in found
                )
                found.append(f"{slug}-{count}" if count else slug)
        return set(found)

    def table(self, *heads: str) -> list[list[str]]:
        """Return the rows, without heads, of all tables that begin with these columns."""
        rows, inside = [], False
        for line in self.prose.splitlines():
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if not line.startswith("|"):
                inside = False
            elif cells[: len(heads)] == list(heads):
                inside = True
            elif inside and set(line) - set("|- :"):
                rows.append(cells)
        return rows

    def _blocks(self) -> Iterator[Block]:
        words: list[str] | None = None
        lines: list[str] = []
        begins = 0
        for number, line in enumerate(self.text.splitlines(), start=1):
            fence = FENCE.fullmatch(line)
            if words is not None and fence:
                language, *marks = words or [""]
                yield Block(
                    page=self.name,
                    line=begins,
                    language=language,
                    marks=tuple(marks),
                    text="\n".join(lines),
                )
                words = None
            elif words is not None:
                lines.append(line)
            elif fence:
                words, lines, begins = fence[1].split(), [], number


def slug_of(heading: str) -> str:
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower().strip()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def every_page() -> list[Page]:
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [page_of(str(path.relative_to(ROOT))) for path in paths]


def every_example() -> list[Page]:
    """Return the files of `examples/`, which have sentences in their comments, as pages."""
    paths = sorted(path for path in (ROOT / "examples").rglob("*.*") if path.suffix != ".pyc")
    return [page_of(str(path.relative_to(ROOT))) for path in paths]


def page_of(name: str) -> Page:
    return Page(name, (ROOT / name).read_text(encoding="utf-8"))
