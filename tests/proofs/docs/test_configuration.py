"""The reference of the configuration: it is complete, and its defaults are the program's."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuruntime.settings.load import ADDRESSES, load
from gpuruntime.settings.schema import Settings
from tests.proofs.docs.pages import page_of
from tests.proofs.examples.test_configuration import FILES, keys_of

PAGE = page_of("docs/configuration.md")
ROWS = PAGE.table("key", "default", "read by")


def plain(cell: str) -> str:
    return cell.strip("`")


def nested(rows: list[list[str]]) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for key, default, *_ in rows:
        *sections, last = plain(key).split(".")
        inner = document
        for section in sections:
            inner = inner.setdefault(section, {})
        inner[last] = yaml.safe_load(plain(default))
    return document


def test_the_defaults_are_those_of_the_program(tmp_path: Path) -> None:
    path = tmp_path / "page.yaml"
    path.write_text(yaml.safe_dump(nested(ROWS)))
    assert load(str(path), flags={}, environment={}) == Settings()


@pytest.mark.parametrize("file", FILES)
def test_each_role_reads_the_keys_that_name_it(file: str) -> None:
    role = file.removesuffix(".yaml")
    named = {plain(row[0]) for row in ROWS if role in row[2].split(", ")}
    assert named == keys_of(file)


def test_every_key_is_listed_once() -> None:
    assert len({row[0] for row in ROWS}) == len(ROWS)


def test_the_listed_variables_are_those_that_the_program_reads() -> None:
    shown = {
        plain(row[0]): tuple(plain(row[1]).split(".")) for row in PAGE.table("variable", "key")
    }
    assert shown == ADDRESSES
