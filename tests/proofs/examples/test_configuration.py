"""The example configuration files: they follow from the page, and state the program's defaults."""

import pytest

from gpuruntime.settings.load import load
from gpuruntime.settings.schema import Settings
from tests.proofs.examples.configuration_files import EXAMPLES, ROLES, file_of


@pytest.mark.parametrize("role", ROLES)
def test_an_example_loads_as_the_defaults(role: str) -> None:
    path = str(EXAMPLES / f"{role}.yaml")
    assert load(path, flags={}, environment={}) == Settings()


@pytest.mark.parametrize("role", ROLES)
def test_an_example_has_every_key_of_its_role(role: str) -> None:
    text = (EXAMPLES / f"{role}.yaml").read_text(encoding="utf-8")
    assert text == file_of(role), "run `python -m tests.proofs.examples.configuration_files`"
