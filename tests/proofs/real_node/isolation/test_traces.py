"""Tests of the traces of a node, and of the runs that leave one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.proofs.real_node.isolation import cgroups, enclosure
from tests.proofs.real_node.isolation.traces import FILES, Traces, differences

ROOT = Path(__file__).parents[4]
BEFORE = {"mounts": frozenset({"/", "/proc"}), "rules": frozenset({"-A FORWARD"})}


def test_an_unchanged_machine_has_no_difference() -> None:
    assert differences(BEFORE, dict(BEFORE)) == []


def test_new_and_lost_lines_are_both_reported() -> None:
    after = {"mounts": frozenset({"/", "/run/new"}), "rules": frozenset[str]()}
    assert differences(BEFORE, after) == [
        "mounts: left behind: /run/new",
        "mounts: lost: /proc",
        "rules: lost: -A FORWARD",
    ]


def test_a_new_process_is_a_trace_and_one_that_has_ended_is_not() -> None:
    before = {"processes": frozenset({"theirs (1)"})}
    after = {"processes": frozenset({"kubelet (2)"})}
    assert differences(before, after) == ["processes: left behind: kubelet (2)"]


@pytest.mark.parametrize(
    ("path", "is_a_node_s"),
    [
        ("/run/containerd/containerd.sock", True),
        ("/run/netns/cni-1", True),
        ("/run/xtables.lock", True),
        ("/run/mount", True),
        ("/var/lib/kubelet", True),
        ("/var/log/pods/default_server", True),
        ("/run/user/1000", False),
        ("/run/sshd.pid", False),
        ("/var/lib/apt/lists", False),
    ],
)
def test_only_files_of_a_node_count(path: str, is_a_node_s: bool) -> None:
    assert bool(FILES.search(path)) is is_a_node_s


@pytest.mark.parametrize(
    ("code", "leaves", "ends_with"), [(0, True, 1), (0, False, 0), (3, True, 3)]
)
def test_a_trace_fails_a_successful_run(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    code: int,
    leaves: bool,
    ends_with: int,
) -> None:
    def take() -> Traces:
        return {"files": frozenset(path.name for path in tmp_path.iterdir())}

    def enclosed() -> int:
        if leaves:
            (tmp_path / "left").touch()
        return code

    assert enclosure.watched(enclosed, take=take, settling_seconds=0.0) == ends_with
    assert ("files: left behind: left" in capsys.readouterr().err) is leaves


def test_cgroups_are_removed_from_the_leaves_up(tmp_path: Path) -> None:
    (tmp_path / "node/kubepods/pod-1").mkdir(parents=True)
    cgroups.remove(tmp_path / "node")
    assert not (tmp_path / "node").exists()


def test_the_leftovers_of_a_killed_run_are_swept_and_a_running_one_stays(tmp_path: Path) -> None:
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


def test_outside_of_an_enclosure_the_suite_fails_without_touching_the_machine() -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-x", "-m", "node"]
    environment = {name: os.environ[name] for name in os.environ if name != enclosure.FOLDER}
    done = subprocess.run(
        [*command, "tests/proofs/real_node/test_node.py"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "nox -s node" in done.stdout
    assert "skipped" not in done.stdout
