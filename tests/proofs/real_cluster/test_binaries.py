"""Tests of how the programs are found and built, with a stand-in for the Go toolchain."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.proofs.real_cluster import binaries

ROOT = Path(__file__).parents[3]
GO = """#!/bin/sh
# Answers as Go does to the few commands of a build, and notes each build.
case "$1 $2" in
  "mod download") echo '{"GoMod": "/nowhere/go.mod"}' ;;
  "mod edit") echo '{"Require": [{"Path": "k8s.io/api", "Version": "v0.0.0"}]}' ;;
  build*) echo "$5" >> "$BUILDS"; sleep 0.05; [ -z "$BREAK" ] || { echo broken >&2; exit 1; }
          echo "#!/bin/sh" > "$4"; chmod +x "$4" ;;
esac
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def builds(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a stand-in for Go, and return its log: one line for each program built."""
    tools = cache.with_name("tools")
    tools.mkdir()
    (tools / "go").write_text(GO)
    (tools / "go").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    notes = cache.with_name("builds")
    monkeypatch.setenv("BUILDS", str(notes))
    return notes


def test_a_complete_folder_of_assets_is_used_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in binaries.NAMES:
        (tmp_path / name).touch(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    assert binaries.find_or_build() == tmp_path


def test_an_incomplete_folder_of_assets_is_refused_with_the_missing_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in binaries.NAMES[:-1]:
        (tmp_path / name).touch(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    with pytest.raises(binaries.MissingBinariesError, match="lacks kwok"):
        binaries.find_or_build()


@pytest.mark.usefixtures("cache")
def test_without_go_and_assets_the_error_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(binaries.MissingBinariesError) as caught:
        binaries.find_or_build()
    assert "KUBEBUILDER_ASSETS" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("builds")
def test_find_builds_nothing() -> None:
    with pytest.raises(binaries.MissingBinariesError, match="nox -s cluster"):
        binaries.find()


def test_a_build_is_found_afterwards(builds: Path) -> None:
    folder = binaries.find_or_build()
    assert binaries.find() == folder
    assert sorted(path.name for path in folder.iterdir()) == sorted(binaries.NAMES)
    assert len(builds.read_text().split()) == len(binaries.NAMES)


def test_two_processes_at_once_build_once(builds: Path) -> None:
    command = [sys.executable, "-m", "tests.proofs.real_cluster.binaries"]
    both = [
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for _ in range(2)
    ]
    answers = {process.communicate()[0] for process in both}
    assert [process.returncode for process in both] == [0, 0]
    assert len(answers) == 1
    assert len(builds.read_text().split()) == len(binaries.NAMES)


def test_a_failed_build_leaves_no_folder(
    builds: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BREAK", "1")
    with pytest.raises(binaries.MissingBinariesError, match="go build failed: broken"):
        binaries.find_or_build()
    assert builds.exists()
    assert [path for path in cache.rglob("*") if path.is_dir()] == [
        cache / "gpuruntime",
        cache / "gpuruntime" / "control-plane",
    ]
