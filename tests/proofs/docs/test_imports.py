"""Documents and examples import from `gpuruntime.client` and `gpuruntime.framework` alone."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from tests.proofs.docs.pages import ROOT, every_page

PUBLIC = ("gpuruntime.client", "gpuruntime.framework")
DEEPER = re.compile(r"\bgpuruntime\.(?:client|framework)\.[a-z]")
SHOWN = ("README.md", "docs/*.md", "examples/*")


def shown_files() -> list[Path]:
    return sorted(path for pattern in SHOWN for path in ROOT.glob(pattern) if path.is_file())


def programs() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of every Python program that a reader is shown."""
    for page in every_page():
        for block in page.blocks:
            if block.language == "python":
                yield block.place, block.text
    for path in sorted((ROOT / "examples").glob("*.py")):
        yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def imports_of(program: str) -> list[tuple[str, str]]:
    """Return the module and the name of every import of gpuruntime."""
    found = []
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.Import):
            found += [(each.name, "") for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [(node.module or "", each.name) for each in node.names]
    return [each for each in found if each[0].partition(".")[0] == "gpuruntime"]


def is_public(module: str, name: str) -> bool:
    return module in PUBLIC and name in import_module(module).__all__


@pytest.mark.parametrize("path", shown_files(), ids=lambda path: path.name)
def test_a_shown_file_names_no_module_below_client_or_framework(path: Path) -> None:
    assert DEEPER.findall(path.read_text(encoding="utf-8")) == []


def test_shown_programs_import_public_names_only() -> None:
    imports = {
        (place, *each): is_public(*each) for place, text in programs() for each in imports_of(text)
    }
    assert imports
    assert [each for each, public in imports.items() if not public] == []


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_exists(module: str) -> None:
    public = import_module(module)
    assert [name for name in public.__all__ if not hasattr(public, name)] == []
    assert len(set(public.__all__)) == len(public.__all__)


def test_an_import_from_a_deeper_module_is_found() -> None:
    program = "import gpuruntime.models\nfrom gpuruntime.client.errors import ClientError\n"
    assert [is_public(*each) for each in imports_of(program)] == [False, False]
    assert DEEPER.search(program)
    assert is_public("gpuruntime.client", "ClientError")
    assert not is_public("gpuruntime.client", "transport")
