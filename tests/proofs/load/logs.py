"""Count the log lines of the processes that are above info."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

ERROR_LEVELS = frozenset({"error", "critical"})


def lines_of(log: Path) -> list[dict[str, Any]]:
    """Return the log's lines. A line that is not JSON, such as a traceback, counts as an error."""
    return [
        json.loads(line) if line.startswith("{") else {"level": "error", "event": line}
        for line in log.read_text(errors="replace").splitlines()
    ]


def counted(log: Path) -> Counter[tuple[str, str]]:
    """Return the number of lines above info, by level and event."""
    return Counter(
        (str(line.get("level")), str(line.get("event")))
        for line in lines_of(log)
        if line.get("level") not in ("debug", "info")
    )
