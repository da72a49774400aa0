"""The walk-through in Python and in shell, each on its own dev."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import file_server
from tests.proofs.real_cluster.product import Caller
from tests.rooms.roles.programs import Programs, programs

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Programs]:
    with programs(tmp_path) as started:
        yield started


def walk(*argv: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(each) for each in argv], capture_output=True, text=True, timeout=200, check=False
    )


def broken_file_server(folder: Path) -> Path:
    folder.mkdir()
    program = folder / "dufs"
    program.write_text("#!/bin/sh\necho no way to serve >&2\nexit 1\n")
    program.chmod(0o755)
    return folder


SHELL = ("bash", EXAMPLES / "walkthrough.sh")
PYTHON = (sys.executable, EXAMPLES / "walkthrough.py")
WALKS = pytest.mark.parametrize("argv", [SHELL, PYTHON], ids=["shell", "python"])


@WALKS
def test_with_a_file_server_the_walk_through_writes_and_reads_a_file(
    program: Programs, tmp_path: Path, argv: tuple[str | Path, ...]
) -> None:
    dev = program.dev(on_path=file_server.written(tmp_path / "bin").parent)
    done = walk(*argv, dev.address)
    assert done.returncode == 0, done.stdout + done.stderr
    if argv == SHELL:
        assert "201 PUT /gpu-storages/weights/files/greeting" in done.stdout
        assert "200 GET /gpu-storages/weights/files/greeting" in done.stdout
    assert "hello from a caller" in done.stdout


@WALKS
def test_the_walk_through_reaches_its_end(
    program: Programs, tmp_path: Path, argv: tuple[str | Path, ...]
) -> None:
    """The walk-through also continues if no file server runs, and reports the reason."""
    dev = program.dev(on_path=broken_file_server(tmp_path / "bin"))
    done = walk(*argv, dev.address)
    assert done.returncode == 0, done.stdout + done.stderr
    unit = Caller(dev.address).get("/gpu-units/demo-instance").data
    assert (unit["phase"], unit["image"]) == ("Ready", "python:3.12")
    if argv == SHELL:
        assert "503 PUT /gpu-storages/weights/files/greeting" in done.stdout
    words = "the accessor of storage weights is not ready" if argv == SHELL else "AccessorFailed: "
    assert words in done.stdout


def test_the_walk_throughs_run_again_and_after_each_other(program: Programs) -> None:
    dev = program.dev()
    for argv in (SHELL, SHELL, PYTHON, PYTHON, SHELL):
        done = walk(*argv, dev.address)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_walk_through_starts_after_one_that_was_interrupted(program: Programs) -> None:
    """The interrupted one leaves two units that want the same storage."""
    dev = program.dev()
    words = "is held by unit demo-instance"
    first = subprocess.Popen([*map(str, SHELL), dev.address], stdout=subprocess.PIPE, text=True)
    with first:
        assert first.stdout is not None
        assert any(words in line for line in first.stdout)
        first.kill()
    for argv in (PYTHON, SHELL):
        done = walk(*argv, dev.address)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_shell_script_reports_where_it_stopped_without_an_api() -> None:
    done = walk("bash", EXAMPLES / "walkthrough.sh", "http://127.0.0.1:1")
    assert done.returncode != 0
    assert "127.0.0.1" in done.stderr
