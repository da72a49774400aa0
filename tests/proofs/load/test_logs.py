from pathlib import Path

from tests.proofs.load import logs

LINES = """\
{"event": "leading", "level": "info"}
{"event": "view was stale", "level": "debug"}
{"event": "cluster request failed", "level": "warning"}
{"event": "reconcile failed", "level": "error"}
Traceback (most recent call last):
"""


def test_all_lines_above_info_are_counted(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(LINES)
    assert logs.counted(log) == {
        ("warning", "cluster request failed"): 1,
        ("error", "reconcile failed"): 1,
        ("error", "Traceback (most recent call last):"): 1,
    }
