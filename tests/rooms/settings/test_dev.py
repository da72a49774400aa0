"""The configuration of dev: whether commands run, and the programs with which they begin."""

from typing import Any

import pytest

from gpuruntime.settings.dev import DevRun, DevSettings
from gpuruntime.strict.structure import StrictError, StrictReader

_reader = StrictReader()


def test_commands_run_unless_the_configuration_says_otherwise() -> None:
    assert _reader.read({}, DevSettings).run is DevRun.AUTO
    assert _reader.read({"run": "simulated"}, DevSettings).run is DevRun.SIMULATED
    assert _reader.read({"programs": ["deno", "g++"]}, DevSettings).programs == ("deno", "g++")


@pytest.mark.parametrize(
    ("section", "field"),
    [
        ({"run": "always"}, "run"),
        ({"programs": ["node", "/usr/bin/python"]}, "programs[1]"),
        ({"programs": [""]}, "programs[0]"),
        ({"programs": ["python -m"]}, "programs[0]"),
        ({"programs": "python"}, "programs"),
        ({"isolation": True}, "isolation"),
    ],
)
def test_a_bad_key_is_named(section: dict[str, Any], field: str) -> None:
    with pytest.raises(StrictError) as caught:
        _reader.read(section, DevSettings)
    assert [problem.field for problem in caught.value.problems] == [field]
