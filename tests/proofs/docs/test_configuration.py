"""The reference of the configuration: it is complete, and its defaults are the program's."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from gpuruntime.errors import ConfigurationError
from gpuruntime.settings.load import ADDRESSES, load
from gpuruntime.settings.schema import Settings
from gpuruntime.settings.values import Address
from tests.proofs.docs.pages import Page, every_page, page_of
from tests.proofs.examples.configuration_files import ROLES, rows

PAGE = page_of("docs/configuration.md")
ROWS = rows()


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


def keys(section: Any, path: str = "") -> Iterator[str]:
    for field in attrs.fields(type(section)):
        value = getattr(section, field.name)
        if attrs.has(type(value)) and not isinstance(value, Address):
            yield from keys(value, f"{path}{field.name}.")
        else:
            yield path + field.name


def test_every_key_is_listed_once() -> None:
    assert sorted(plain(row[0]) for row in ROWS) == sorted(keys(Settings()))


def test_every_key_is_read_by_a_role() -> None:
    assert {role for row in ROWS for role in row[2].split(", ")} == {*ROLES, "dev"}


def test_the_listed_variables_are_those_that_the_program_reads() -> None:
    shown = {
        plain(row[0]): tuple(plain(row[1]).split(".")) for row in PAGE.table("variable", "key")
    }
    assert shown == ADDRESSES


def excerpts(page: Page) -> Iterator[str]:
    """Yield the YAML blocks of a page whose members are sections of the configuration."""
    sections = {field.name for field in attrs.fields(Settings)}
    for block in page.blocks:
        if block.language == "yaml" and sections.issuperset(yaml.safe_load(block.text)):
            yield block.text.replace("A…", "A" * 56)


def load_text(folder: Path, text: str) -> Settings:
    path = folder / "shown.yaml"
    path.write_text(text)
    return load(str(path), flags={}, environment={})


def test_what_pages_show_of_a_configuration_can_be_loaded(tmp_path: Path) -> None:
    shown = [text for page in every_page() for text in excerpts(page)]
    assert len(shown) >= 5
    for text in shown:
        assert load_text(tmp_path, text) != Settings(), text


def test_a_wrong_key_that_a_page_shows_is_found(tmp_path: Path) -> None:
    (text,) = excerpts(Page("planted", "```yaml\nauth: {modus: token}\n```"))
    with pytest.raises(ConfigurationError, match=r"auth\.modus"):
        load_text(tmp_path, text)
