"""The guard of processes kills the remaining groups and deletes the folders when stdin ends."""

import subprocess
import sys
from pathlib import Path

import pytest

from gpuruntime.embedded.processes.guarded_processes import GUARD, guarded
from tests.eventually import equals, eventually


def a_process() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-S", "-c", "input()"], process_group=0, stdin=-1)


def is_running(number: int) -> bool:
    """Return whether the process runs; a zombie does not."""
    stat = Path(f"/proc/{number}/stat")
    return stat.exists() and ") Z" not in stat.read_text()


def test_the_end_of_stdin_kills_remaining_processes_and_deletes_folders(tmp_path: Path) -> None:
    """Stdin also ends if the process that holds its other end is killed."""
    left, forgotten = a_process(), a_process()
    folder = tmp_path / "folder"
    folder.mkdir()
    lines = f"+{left.pid}\n+{forgotten.pid}\n-{forgotten.pid}\n"
    guard = [sys.executable, "-I", "-S", str(GUARD), str(folder)]
    subprocess.run(guard, input=lines.encode(), check=True, timeout=20)
    assert left.wait(timeout=20) == -9
    assert not folder.exists()
    assert forgotten.poll() is None
    for each in (left, forgotten):
        each.communicate(b"\n")
    assert forgotten.returncode == 0


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads Linux's /proc")
async def test_no_process_of_a_group_survives_its_leader(tmp_path: Path) -> None:
    """A process that starts another one and ends would otherwise leave it running."""
    log = tmp_path / "log"
    code = "import subprocess as s, sys; print(s.Popen(['sleep', '60']).pid, flush=True)"
    async with guarded() as processes:
        process = await processes.start([sys.executable, "-S", "-c", code], log=log)
        assert await process.ended() == 0
    number = int(log.read_text())
    await eventually(lambda: is_running(number), equals(False))


async def test_a_missing_program_raises_an_oserror(tmp_path: Path) -> None:
    async with guarded() as processes:
        with pytest.raises(FileNotFoundError):
            await processes.start([str(tmp_path / "none")], log=tmp_path / "log")
