"""What counts as a trace of a node, and that a trace fails whoever left it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.node import cgroups, enclosure
from tests.node.traces import differences

ROOT = Path(__file__).parents[2]
BEFORE = {"mounts": frozenset({"/", "/proc"}), "rules": frozenset({"-A FORWARD"})}


def test_a_machine_as_it_was_shows_no_difference() -> None:
    assert differences(BEFORE, dict(BEFORE)) == []


def test_what_came_and_what_went_are_both_told() -> None:
    after = {"mounts": frozenset({"/", "/run/new"}), "rules": frozenset[str]()}
    assert differences(BEFORE, after) == [
        "mounts: left behind: /run/new",
        "mounts: lost: /proc",
        "rules: lost: -A FORWARD",
    ]


def test_cgroups_are_removed_from_the_leaves_up(tmp_path: Path) -> None:
    (tmp_path / "node/kubepods/pod-1").mkdir(parents=True)
    cgroups.remove(tmp_path / "node")
    assert not (tmp_path / "node").exists()


def test_what_a_killed_run_left_is_swept_and_a_running_one_s_place_is_not(tmp_path: Path) -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    dead = tmp_path / f"{cgroups.PREFIX}{process.pid}-left"
    alive = tmp_path / f"{cgroups.PREFIX}{os.getpid()}-right"
    for place in (dead, alive):
        (place / "node").mkdir(parents=True)
    enclosure.sweep(tmp_path)
    assert not dead.exists()
    assert alive.exists()


def test_without_root_the_start_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    with pytest.raises(enclosure.EnclosureError, match="needs root"):
        enclosure.run(["true"])


def test_outside_of_an_enclosure_the_suite_fails_instead_of_touching_the_machine() -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-x", "-m", "node"]
    environment = {name: os.environ[name] for name in os.environ if name != enclosure.FOLDER}
    done = subprocess.run(
        [*command, "tests/node/test_node.py"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "nox -s node" in done.stdout
    assert "skipped" not in done.stdout
