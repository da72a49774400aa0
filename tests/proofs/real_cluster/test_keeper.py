"""Tests of the keeper: it ends its programs, even if its parent or the keeper itself is killed."""

import os
import signal
import subprocess
import sys
from operator import not_
from pathlib import Path

import pytest

from tests.eventually import eventually_blocking
from tests.proofs.real_cluster.processes import KEEPER, Keeper, reserved_port

SLEEPER = ["sleep", "60"]
WAIT_SECONDS = 10.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "data"
    made.mkdir()
    return made


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_for_the_end_of(pid: int) -> None:
    eventually_blocking(lambda: is_running(pid), not_, within_seconds=WAIT_SECONDS)


def test_closing_ends_the_programs_and_removes_the_folder(folder: Path) -> None:
    keeper = Keeper(folder, folder / "shared")
    pid = keeper.start("sleeper", SLEEPER, folder / "log")
    keeper.close()
    assert not is_running(pid)
    assert not folder.exists()


def test_poll_returns_the_exit_code_of_a_program_that_ended(folder: Path) -> None:
    keeper = Keeper(folder, folder / "shared")
    keeper.start("short", ["sh", "-c", "exit 7"], folder / "log")
    exit_code = eventually_blocking(lambda: keeper.poll("short"), lambda code: code is not None)
    keeper.close()
    assert exit_code == 7


def test_a_killed_program_can_be_started_again(folder: Path) -> None:
    keeper = Keeper(folder, folder / "shared")
    first = keeper.start("sleeper", SLEEPER, folder / "log")
    assert keeper.kill("sleeper") == -signal.SIGKILL
    second = keeper.start("sleeper", SLEEPER, folder / "log")
    assert not is_running(first)
    assert is_running(second)
    keeper.close()


def parent_of_a_sleeper(folder: Path) -> tuple[subprocess.Popen[str], int, int]:
    """Return a process with a running program, and the ids of its keeper and of the program."""
    code = (
        "import sys; from pathlib import Path;"
        "from tests.proofs.real_cluster.processes import Keeper;"
        "keeper = Keeper(Path(sys.argv[1]), Path(sys.argv[1], 'shared'));"
        "print(keeper._process.pid, keeper.start('s', ['sleep', '60'], Path('/dev/null')));"
        "sys.stdout.flush(); input()"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code, folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=KEEPER.parents[3],
    )
    assert parent.stdout
    keeper, program = map(int, parent.stdout.readline().split())
    return parent, keeper, program


def test_a_killed_parent_leaves_nothing_behind(folder: Path) -> None:
    parent, keeper, program = parent_of_a_sleeper(folder)
    parent.kill()
    parent.communicate()
    wait_for_the_end_of(program)
    wait_for_the_end_of(keeper)
    assert not folder.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's end")
def test_a_killed_keeper_ends_its_programs(folder: Path) -> None:
    parent, keeper, program = parent_of_a_sleeper(folder)
    os.kill(keeper, signal.SIGKILL)
    wait_for_the_end_of(program)
    parent.communicate()


def test_only_entries_that_the_programs_mention_are_removed_from_a_shared_folder(
    folder: Path, tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    for name in ("ours", "theirs"):
        (shared / name).mkdir(parents=True)
    (folder / "notes").write_text("path: /shared/ours, capacity: 1Gi")
    Keeper(folder, shared).close()
    assert [path.name for path in shared.iterdir()] == ["theirs"]


def test_two_reserved_ports_differ() -> None:
    with reserved_port() as first, reserved_port() as second:
        assert first != second
