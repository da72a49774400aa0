"""Shell sessions in a document: the typed commands, their output, and the files beside them."""

import re
from pathlib import Path

import attrs

_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (\S+\.yaml)\n")
_TYPED = "$ gpuruntime "


@attrs.frozen
class Exchange:
    words: str
    lines: tuple[str, ...]


def sections_of(document: Path) -> dict[str, str]:
    _, *parts = _HEADING.split(document.read_text())
    return dict(zip(parts[::2], parts[1::2], strict=True))


def files_of(section: str) -> dict[str, str]:
    """Return the YAML blocks whose first line is a file name."""
    found = ((_FILE.match(text), text) for kind, text in _BLOCK.findall(section) if kind == "yaml")
    return {match[1]: text for match, text in found if match}


def exchanges_of(section: str) -> list[Exchange]:
    found: list[Exchange] = []
    for kind, text in _BLOCK.findall(section):
        for line in text.splitlines() if kind == "console" else ():
            if line.startswith(_TYPED):
                found.append(Exchange(line.removeprefix(_TYPED), ()))
            else:
                found[-1] = attrs.evolve(found[-1], lines=(*found[-1].lines, line))
    return found


def is_as_written(said: str, lines: tuple[str, ...]) -> bool:
    """Compare output with a page: blanks count once, and an ellipsis matches anything.

    An ellipsis alone on a line matches any number of lines.
    """
    patterns = []
    for line in lines:
        if line == "…":
            patterns.append(r"(?:.*\n)*?")
            continue
        words = " ".join(line.split()).split("…")
        patterns.append(".*".join(re.escape(each) for each in words) + r"\ ?\n")
    text = "".join(f"{' '.join(each.split())}\n" for each in said.splitlines())
    return re.fullmatch("".join(patterns), text) is not None
