"""Tests of the crash harness: which processes count as ended, and what a world removes."""

import subprocess
import sys
from pathlib import Path

import pytest

from gpuruntime.models.kinds.pools import STOCK_POOLS
from gpuruntime.reconcilers.stock.pool_pass_plan import FINALIZER
from tests.proofs.crash.unit_story import ENVELOPE
from tests.proofs.crash.world import MakeWorld, has_ended, is_dead


def test_a_process_reaped_while_its_stat_is_read_counts_as_dead() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with Path(f"/proc/{process.pid}/stat").open() as stat:
        process.communicate()
        assert has_ended(stat)
    assert is_dead(process.pid)


def test_a_running_process_is_not_dead() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert not is_dead(process.pid)
        process.communicate()


@pytest.mark.cluster
def test_a_world_removes_what_its_dead_manager_can_no_longer_finalize(make: MakeWorld) -> None:
    world = make("failed")
    place = world.installation.stock
    path = STOCK_POOLS.path(namespace=place)
    pool = {
        "apiVersion": STOCK_POOLS.api_version,
        "kind": STOCK_POOLS.kind,
        "metadata": {"name": "pool", "finalizers": [FINALIZER]},
        "spec": {"specName": "g1.1", "replicas": 1, **ENVELOPE},
    }
    assert not world.items(path)
    world.plane.request("POST", path, pool)
    world.plane.request("DELETE", f"{path}/pool")
    assert world.items(path)
    world.remove_objects()
    assert not world.items(path)
