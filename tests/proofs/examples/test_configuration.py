"""The example configuration files: they are complete, and state the program's defaults."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from gpuruntime.settings.load import load
from gpuruntime.settings.schema import Settings

EXAMPLES = Path(__file__).parents[3] / "examples"
FILES = ("manager.yaml", "api.yaml", "activator.yaml", "worker.yaml", "results.yaml")


def keys(document: dict[str, Any], path: str = "") -> Iterator[str]:
    for name, value in document.items():
        if isinstance(value, dict) and value:
            yield from keys(value, f"{path}{name}.")
        else:
            yield path + name


def keys_of(file: str) -> set[str]:
    return set(keys(yaml.safe_load((EXAMPLES / file).read_text())))


@pytest.mark.parametrize("file", FILES)
def test_an_example_loads_as_the_defaults(file: str) -> None:
    assert load(str(EXAMPLES / file), flags={}, environment={}) == Settings()


def test_the_examples_together_have_every_key() -> None:
    every = set(keys(attrs.asdict(Settings(), filter=lambda *_: True)))
    addresses = {key.removesuffix(".host") for key in every if key.endswith(".host")}
    plain = every - {f"{address}.{part}" for address in addresses for part in ("host", "port")}
    assert set().union(*map(keys_of, FILES)) == plain | addresses
