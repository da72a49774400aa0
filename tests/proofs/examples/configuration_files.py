"""The roles' files in `examples/`, made from the table of docs/configuration.md.

`python -m tests.proofs.examples.configuration_files` writes them.
"""

import re
from collections.abc import Iterator
from typing import Final

from tests.proofs.docs.pages import ROOT, page_of

ROLES: Final = ("manager", "api", "activator", "worker", "results", "gateway")
PAGE: Final = "docs/configuration.md"
EXAMPLES: Final = ROOT / "examples"
HEAD: Final = """\
# gpuruntime {role} --config {role}.yaml: every key of the role, with its default.
# Durations are seconds, or have a unit: 500ms, 30s, 10m, 24h.
"""
_LINK: Final = re.compile(r"\[[^\]]*\]\(([^)]*)\)")


def rows() -> list[list[str]]:
    return page_of(PAGE).table("key", "default", "read by")


def file_of(role: str) -> str:
    return HEAD.format(role=role) + "".join(f"{line}\n" for line in _lines(role))


def _lines(role: str) -> Iterator[str]:
    """Yield the lines of the role's keys, with a blank line between sections."""
    before: list[str] | None = None
    for key, default, readers, effect in rows():
        if role not in readers.split(", "):
            continue
        *sections, last = key.strip("`").split(".")
        if before is None or sections[:1] != before[:1]:
            yield ""
        for depth, name in enumerate(sections):
            if sections[: depth + 1] != (before or [])[: depth + 1]:
                yield f"{'  ' * depth}{name}:"
        before = sections
        comment = _LINK.sub(r"docs/\1", effect).replace("`", "")
        yield f"{'  ' * len(sections)}{last}: {default.strip('`')} # {comment}"


if __name__ == "__main__":
    for each in ROLES:
        (EXAMPLES / f"{each}.yaml").write_text(file_of(each), encoding="utf-8")
