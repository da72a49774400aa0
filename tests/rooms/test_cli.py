import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
import structlog
import yaml

from gpuruntime.cli import main
from gpuruntime.models.definitions.crds import render


@pytest.fixture
def config(tmp_path: Path) -> str:
    """Write a configuration with free ports, which no other process uses."""
    path = tmp_path / "config.yaml"
    path.write_text('operations: {listen: "127.0.0.1:0"}\nleaderElection: {enabled: false}\n')
    return str(path)


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def kubeconfig(folder: Path) -> str:
    path = folder / "kubeconfig"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "real",
        "clusters": [{"name": "real", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "admin", "user": {"token": "t"}}],
        "contexts": [{"name": "real", "context": {"cluster": "real", "user": "admin"}}],
    }
    path.write_text(yaml.safe_dump(document))
    return str(path)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpuruntime", *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize("word", ["version", "--version"])
def test_the_version_is_that_of_the_package(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word]) == 0
    assert capsys.readouterr().out.strip() == version("gpuruntime")


def test_the_program_alone_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    printed = capsys.readouterr()
    assert (printed.out.splitlines()[0].split()[:2], printed.err) == (["usage:", "gpuruntime"], "")
    assert "units: claimed from stock, running an image" in printed.out


def test_the_printed_definitions_are_those_checked_in(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["crds"]) == 0
    assert capsys.readouterr().out == render()


def test_a_bad_configuration_is_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("listen: 1\nsurprise: 2\n")
    assert main(["manager", "--config", str(path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "listen: must be host:port" in line
    assert "surprise: unknown field" in line


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--kubeconfig", "/nowhere"), "kubeconfig /nowhere: no such file"),
        (("--kubeconfig", "KUBECONFIG", "--context", "other"), "there is no context 'other'"),
    ],
    ids=["missing file", "unknown context"],
)
def test_a_kubeconfig_that_cannot_work_is_one_line_and_exit_code_2(
    config: str, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    real = kubeconfig(tmp_path)
    given = [real if each == "KUBECONFIG" else each for each in arguments]
    ended = run("manager", "--config", config, *given)
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert words in line


def test_a_required_cluster_that_is_dead_is_one_line_and_exit_code_3(
    config: str, tmp_path: Path
) -> None:
    ended = run(
        "manager",
        "--config",
        config,
        "--kubeconfig",
        kubeconfig(tmp_path),
        "--kube-mode",
        "required",
    )
    assert ended.returncode == 3
    (line,) = ended.stderr.splitlines()
    assert "the cluster is required" in line


def test_an_unreadable_kubeconfig_file_is_named(config: str, tmp_path: Path) -> None:
    folder = tmp_path / "a-folder"
    folder.mkdir()
    ended = run("manager", "--config", config, "--kubeconfig", str(folder))
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert str(folder) in line
