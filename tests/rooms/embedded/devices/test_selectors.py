"""Selectors over one device: what matches, and the words of what fails."""

import sys
from typing import Any

import pytest

from gpuruntime.embedded.devices.selectors import (
    MISSING_LIBRARY,
    SelectorError,
    _environment,
    compiled_selector,
)
from gpuruntime.models.encoding import codec
from gpuruntime.models.kubernetes.devices import Device

DEVICE = codec.decode(
    codec.encode(
        {
            "name": "gpu-3",
            "attributes": {
                "kind": {"string": "whole"},
                "uuid": {"string": "GPU-1"},
                "index": {"int": 3},
                "healthy": {"bool": True},
                "driverVersion": {"version": "1.10.0-rc.2"},
                "pci.example/root": {"string": "0000:00"},
            },
            "capacity": {"memory": {"value": "80Gi"}},
        }
    ),
    Device,
)


def found(expression: str) -> bool:
    return compiled_selector(expression).matches("gpu.test", DEVICE)


def failure(expression: str) -> str:
    with pytest.raises(SelectorError) as raised:
        found(expression)
    return str(raised.value)


@pytest.mark.parametrize(
    ("expression", "is_match"),
    [
        ("device.driver == 'gpu.test'", True),
        ("device.driver == 'nic.test'", False),
        ("device.attributes['gpu.test'].kind == 'whole'", True),
        ("device.attributes['gpu.test'].index >= 2 && device.driver.startsWith('gpu')", True),
        ("device.attributes['gpu.test'].healthy", True),
        ("has(device.attributes['gpu.test'].nosuch)", False),
        ("device.attributes['gpu.test'].?nosuch.orValue('d') == 'd'", True),
        ("device.attributes['gpu.test'].uuid.matches('^GPU-[0-9]+$')", True),
        ("device.attributes['gpu.test'].uuid.lowerAscii() == 'gpu-1'", True),
        ("cel.bind(a, device.attributes['gpu.test'], a.kind == 'whole' && a.index == 3)", True),
        ("device.attributes['pci.example'].root == '0000:00'", True),
        ("'absent.test' in device.attributes", False),
        ("has(device.attributes['absent.test'].kind)", False),
        ("device.capacity['gpu.test'].memory.compareTo(quantity('40Gi')) >= 0", True),
        ("device.capacity['gpu.test'].memory == quantity('81920Mi')", True),
        ("device.capacity['gpu.test'].memory.isGreaterThan(quantity('100Gi'))", False),
        ("device.attributes['gpu.test'].driverVersion.isGreaterThan(semver('1.9.9'))", True),
        ("device.attributes['gpu.test'].driverVersion.isLessThan(semver('1.10.0'))", True),
        ("device.attributes['gpu.test'].driverVersion.compareTo(semver('1.10.0-rc.10'))", None),
        (
            "device.attributes['gpu.test'].driverVersion.compareTo(semver('1.10.0-rc.2')) == 0",
            True,
        ),
        ("device.attributes['gpu.test'].driverVersion.isLessThan(semver('1.10.0-rc.10'))", True),
        ("device.attributes['gpu.test'].driverVersion.minor() == 10", True),
    ],
)
def test_a_device_matches(expression: str, is_match: bool | None) -> None:
    if is_match is None:
        assert failure(expression) == "must evaluate to bool or the unknown type, not int"
    else:
        assert found(expression) is is_match


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("device.attributes['gpu.test'].nosuch == 'x'", "no such key: nosuch"),
        ("device.attributes['absent.test'].kind == 'x'", "no such key: kind"),
        (
            "device.attributes['gpu.test'].kind",
            "CEL result of type string could not be converted to bool",
        ),
        ("device.attributes['gpu.test'].kind > 1", "no such overload"),
        ("device.nosuch == 1", "compilation failed: ERROR: <input>: undefined field 'nosuch'"),
        ("'device.nosuch' == 1", None),
    ],
)
def test_a_failure_has_the_words_of_the_scheduler(expression: str, words: str | None) -> None:
    if words is None:
        assert "undefined field" not in failure(expression)
    else:
        assert failure(expression) == words


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    _environment.cache_clear()
    monkeypatch.setitem(sys.modules, "cel_expr_python", None)
    assert failure("device.driver == 'only in this test'") == MISSING_LIBRARY
    monkeypatch.undo()
    assert not found("device.driver == 'only in this test'")


def test_a_slice_changed_by_a_driver_is_read_with_all_kinds_of_values() -> None:
    values: dict[str, Any] = DEVICE.attributes
    assert values["index"] == {"int": 3}
    assert DEVICE.capacity["memory"].value == "80Gi"
