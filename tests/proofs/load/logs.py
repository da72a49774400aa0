"""What the processes' logs say beside what they always say."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

ERROR_LEVELS = frozenset({"error", "critical"})


def lines_of(log: Path) -> list[dict[str, Any]]:
    """What is no line of ours, such as a traceback past the logger, is grave as well."""
    return [
        json.loads(line) if line.startswith("{") else {"level": "error", "event": line}
        for line in log.read_text(errors="replace").splitlines()
    ]


def counted(log: Path) -> Counter[tuple[str, str]]:
    """By level and event, all that is more than information."""
    return Counter(
        (str(line.get("level")), str(line.get("event")))
        for line in lines_of(log)
        if line.get("level") not in ("debug", "info")
    )
