"""The example function, from its file to its answers, on its own dev."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.proofs.examples.test_walkthrough import EXAMPLES, walk
from tests.rooms.roles.programs import Programs, programs


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Programs]:
    with programs(tmp_path) as started:
        yield started


@pytest.mark.serverless
def test_the_function_is_called_and_the_script_can_run_again(program: Programs) -> None:
    dev = program.dev()
    for _ in range(2):
        done = walk("bash", EXAMPLES / "function.sh", dev.address)
        assert done.returncode == 0, done.stdout + done.stderr
        assert '"hello":"Grace"' in done.stdout
