"""The end of a process, as the kubelet words it."""

import signal
from pathlib import Path

import pytest

from gpuruntime.embedded.processes.container_process import out_of_memory_kills, reason_of

KILLED = -signal.SIGKILL


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nr_free_pages 12\noom_kill 3\nfoo 9\n", 3),
        ("oom_kill_x 4\n", 0),
        ("", 0),
        (None, 0),
    ],
    ids=["counted", "another counter", "empty", "no file"],
)
def test_kills_of_the_kernel_are_counted(tmp_path: Path, text: str | None, expected: int) -> None:
    if text is not None:
        (tmp_path / "vmstat").write_text(text)
    assert out_of_memory_kills(tmp_path / "vmstat") == expected


@pytest.mark.parametrize(
    ("code", "is_ours", "kills", "expected"),
    [
        pytest.param(KILLED, False, 1, "OOMKilled", id="killed while the kernel freed memory"),
        pytest.param(KILLED, False, 0, "Error", id="killed by a person"),
        pytest.param(KILLED, True, 1, "Error", id="killed by us"),
        pytest.param(-signal.SIGTERM, False, 1, "Error", id="another signal"),
        pytest.param(137, False, 1, "Error", id="an exit code of its own"),
        pytest.param(3, False, 0, "Error", id="a failure"),
        pytest.param(0, False, 1, "Completed", id="a success"),
    ],
)
def test_an_end_has_a_reason(code: int, is_ours: bool, kills: int, expected: str) -> None:
    assert reason_of(code, is_ours=is_ours, kills=kills) == expected
