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


def test_nodes_have_no_devices_unless_the_configuration_says_so() -> None:
    assert _reader.read({}, DevSettings).devices.count == 0
    given = {"devices": {"count": 4, "driver": "gpu.test"}}
    devices = _reader.read(given, DevSettings).devices
    assert (devices.count, devices.driver, devices.className) == (4, "gpu.test", "gpu.example.com")


@pytest.mark.parametrize(
    ("section", "field"),
    [
        ({"run": "always"}, "run"),
        ({"programs": ["node", "/usr/bin/python"]}, "programs[1]"),
        ({"programs": [""]}, "programs[0]"),
        ({"programs": ["python -m"]}, "programs[0]"),
        ({"programs": "python"}, "programs"),
        ({"isolation": True}, "isolation"),
        ({"devices": {"count": -1}}, "devices.count"),
        ({"devices": {"count": 129}}, "devices.count"),
        ({"devices": {"className": "No_Class"}}, "devices.className"),
        ({"devices": {"driver": f"{'d' * 64}.test"}}, "devices.driver"),
        ({"devices": {"driver": ""}}, "devices.driver"),
        ({"devices": {"product": "x" * 65}}, "devices.product"),
        ({"devices": {"class": "gpu.test"}}, "devices.class"),
    ],
)
def test_a_bad_key_is_named(section: dict[str, Any], field: str) -> None:
    with pytest.raises(StrictError) as caught:
        _reader.read(section, DevSettings)
    assert [problem.field for problem in caught.value.problems] == [field]
