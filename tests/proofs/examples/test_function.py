"""The example function, from its file to its answers, on its own dev."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.proofs.examples.test_walkthrough import EXAMPLES, walk
from tests.proofs.real_cluster.product import Caller
from tests.rooms.roles.programs import Programs, programs


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Programs]:
    with programs(tmp_path) as started:
        yield started


def send_workers_home(caller: Caller) -> None:
    """Leave the function without a worker, as half a minute without a call does."""
    assert caller.put("/gpu-units/greet", {"suspended": True}).status == 200
    caller.until("/gpu-units", lambda units: [unit["name"] for unit in units] == ["greet"])
    assert caller.put("/gpu-units/greet", {"suspended": False}).status == 200


@pytest.mark.serverless
def test_the_script_can_run_again_and_each_cold_start_finds_stock(program: Programs) -> None:
    dev = program.dev()
    caller = Caller(dev.address)
    for _ in range(3):
        done = walk("bash", EXAMPLES / "function.sh", dev.address)
        assert done.returncode == 0, done.stdout + done.stderr
        assert '"hello":"Grace"' in done.stdout
        send_workers_home(caller)
    pool = caller.get("/operator/stockpools/greet-warm").data
    assert pool["consumed"] >= 3
