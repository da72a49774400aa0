"""The walk-through in both languages, each on a dev of its own."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.product import Caller
from tests.roles.programs import Programs, programs

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Programs]:
    with programs(tmp_path) as started:
        yield started


def walk(*argv: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(each) for each in argv], capture_output=True, text=True, timeout=200, check=False
    )


@pytest.mark.parametrize(
    "argv", [("bash", EXAMPLES / "walkthrough.sh"), (sys.executable, EXAMPLES / "walkthrough.py")]
)
def test_it_reaches_its_end(program: Programs, argv: tuple[str | Path, ...]) -> None:
    dev = program.dev()
    done = walk(*argv, dev.address)
    assert done.returncode == 0, done.stdout + done.stderr
    unit = Caller(dev.address).get("/gpu-units/demo-instance").data
    assert (unit["phase"], unit["image"]) == ("Ready", "python:3.12")

    again = walk(*argv, dev.address)
    assert again.returncode == 1
    assert "wanted 202, not 200" in again.stderr


def test_the_shell_says_where_it_stopped_when_nobody_listens() -> None:
    done = walk("bash", EXAMPLES / "walkthrough.sh", "http://127.0.0.1:1")
    assert done.returncode != 0
    assert "127.0.0.1" in done.stderr
