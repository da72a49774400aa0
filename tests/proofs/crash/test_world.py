"""Tests of the crash harness: which processes count as ended."""

import subprocess
import sys
from pathlib import Path

from tests.proofs.crash.world import has_ended, is_dead


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
