"""A file that is not YAML is reported without repeating its content."""

from pathlib import Path

import pytest

from gpuruntime.errors import ConfigurationError
from gpuruntime.kube.connect.sources import Kubeconfig
from gpuruntime.strict.yaml_documents import read_mapping

SECRET = "hunter2"
BROKEN = (
    'users: [{name: a, user: {token: "hunter2}}]',
    "token: a: hunter2",
    "token: *hunter2",
    "token: !hunter2 a",
    "token: !<hunter2",
    "token: !hunter2!a b",
    "token: %hunter2",
    "token: @hunter2",
    "token: `hunter2",
    "token: 'hunter2",
    "token: |9hunter2",
    "token: &hunter2 &hunter2 a",
    "%hunter2 1\n---\n%YAML 9.9\n---",
    "%TAG hunter2 hunter2\n---",
    "\thunter2: [",
    "hunter2: {\n",
    "token: hunter2\x07",
    "token: hunter2\n- a",
    "? hunter2\n? [hunter2",
)


@pytest.mark.parametrize("text", BROKEN)
def test_a_secret_in_a_broken_file_is_not_repeated(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as configuration:
        read_mapping(str(path))
    with pytest.raises(ConfigurationError) as kubeconfig:
        Kubeconfig(str(path)).load()
    for caught in (configuration, kubeconfig):
        assert "not YAML: " in str(caught.value)
        assert SECRET not in str(caught.value)
        assert "\n" not in str(caught.value)


def test_bytes_that_are_not_text_are_not_repeated(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_bytes(b"token: hunter2\xff\xfe")
    with pytest.raises(ConfigurationError) as caught:
        read_mapping(str(path))
    assert SECRET not in str(caught.value)


def test_the_place_and_the_fault_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("a: 1\nb: 'c")
    with pytest.raises(ConfigurationError, match=r"line 2, column 6: found unexpected end"):
        read_mapping(str(path))
