"""The process that listens at a port, from a folder as /proc is and from the real one."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from gpuruntime.embedded.processes.port_holders import holder_of

HEAD = "  sl  local_address rem_address   st\n"
ROW = " 0: 0100007F:{port:04X} 00000000:0000 {state} 0:0 0:0 0 1000 0 {inode} 1\n"
LISTENER = """
import socket, sys
with socket.create_server(("127.0.0.1", 0)) as listener:
    print(listener.getsockname()[1], flush=True)
    sys.stdin.read()
"""


def proc_in(folder: Path, rows: str, *, of_six: str = "") -> Path:
    (folder / "net").mkdir()
    (folder / "net/tcp").write_text(HEAD + rows)
    (folder / "net/tcp6").write_text(HEAD + of_six)
    for number, inode, name in (("41", "5", "postgres"), ("42", "7", "my\nweb")):
        (folder / number / "fd").mkdir(parents=True)
        (folder / number / "fd/3").symlink_to(f"socket:[{inode}]")
        (folder / number / "comm").write_text(f"{name}\n")
    return folder


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param(
            ROW.format(port=80, state="0A", inode=5), "postgres (process 41)", id="known"
        ),
        pytest.param(ROW.format(port=80, state="01", inode=5), "", id="connected only"),
        pytest.param(ROW.format(port=81, state="0A", inode=5), "", id="another port"),
        pytest.param(ROW.format(port=80, state="0A", inode=9), "", id="of another user"),
        pytest.param("", "", id="no one"),
    ],
)
def test_the_listener_is_found_by_its_socket(tmp_path: Path, rows: str, expected: str) -> None:
    assert holder_of(80, proc_in(tmp_path, rows)) == expected


def test_a_listener_of_both_families_is_found_and_its_name_is_one_line(tmp_path: Path) -> None:
    row = ROW.format(port=80, state="0A", inode=7)
    assert holder_of(80, proc_in(tmp_path, "", of_six=row)) == "my web (process 42)"


def test_without_proc_the_holder_is_unknown(tmp_path: Path) -> None:
    assert holder_of(80, tmp_path) == ""


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads Linux's /proc")
def test_a_real_process_is_found() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LISTENER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout
        port = int(other.stdout.readline())
        assert holder_of(port).endswith(f"(process {other.pid})")
        other.communicate()
    with socket.create_server(("127.0.0.1", 0)) as ours:
        assert holder_of(ours.getsockname()[1]) == "gpuruntime dev itself"
    assert os.getpid() != other.pid
