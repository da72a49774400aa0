"""Columns of `kubectl get`, and the texts in their cells."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import attrs

from gpuruntime.embedded.apiserver.documents import Document

NONE: Final = "<none>"
UNKNOWN: Final = "<unknown>"
MINUTE: Final = 60
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
YEAR: Final = 365 * DAY

Cells = Callable[[Document, datetime], list[Any]]


@attrs.frozen(slots=True)
class Column:
    """A column; priority 1 shows it only with `-o wide`; the type says how cells are written."""

    name: str
    type: str = "string"
    format: str = ""
    priority: int = 0
    description: str = ""

    def document(self) -> Document:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


@attrs.frozen(slots=True)
class Printer:
    """A printer of a kind: its columns, and a function that returns as many cells."""

    columns: tuple[Column, ...]
    cells: Cells


NAME: Final = Column("Name", format="name")
AGE: Final = Column("Age")


def wide(name: str) -> Column:
    return Column(name, priority=1)


def age_of(document: Document, now: datetime) -> str:
    return age(document["metadata"].get("creationTimestamp"), now)


def age(moment: str | None, now: datetime) -> str:
    if not moment:
        return UNKNOWN
    return human_duration((now - datetime.fromisoformat(moment)).total_seconds())


def human_duration(total: float) -> str:
    """Return the duration as kubectl shows it, with a second unit if that is significant."""
    seconds = int(total)
    if seconds < -1:
        return "<invalid>"
    if seconds < 2 * MINUTE:
        return f"{max(seconds, 0)}s"
    if seconds < 10 * MINUTE:
        return _two(seconds, MINUTE, "m", 1, "s")
    if seconds < 3 * HOUR:
        return f"{seconds // MINUTE}m"
    if seconds < 8 * HOUR:
        return _two(seconds, HOUR, "h", MINUTE, "m")
    if seconds < 2 * DAY:
        return f"{seconds // HOUR}h"
    if seconds < 8 * DAY:
        return _two(seconds, DAY, "d", HOUR, "h")
    if seconds < 2 * YEAR:
        return f"{seconds // DAY}d"
    if seconds < 8 * YEAR:
        return _two(seconds, YEAR, "y", DAY, "d")
    return f"{seconds // YEAR}y"


def _two(seconds: int, large: int, first: str, small: int, second: str) -> str:
    rest = seconds % large // small
    return f"{seconds // large}{first}" + (f"{rest}{second}" if rest else "")


def dig(document: Any, *names: str) -> Any:
    """Return the member at the end of a chain of names, or None if a member is absent."""
    for name in names:
        document = document.get(name) if isinstance(document, dict) else None
    return document


def has_condition(status: Document, kind: str) -> bool:
    conditions = status.get("conditions") or ()
    return any(each["type"] == kind and each["status"] == "True" for each in conditions)


def joined(values: Iterable[str]) -> str:
    return ",".join(values)


def labels_text(labels: Mapping[str, str] | None) -> str:
    pairs = (f"{name}={value}" for name, value in sorted((labels or {}).items()))
    return joined(pairs) or NONE


def selector_text(selector: Document | None) -> str:
    """Return the selector as kubectl writes it: equal labels, then expressions."""
    if selector is None:
        return NONE
    parts = [f"{name}={value}" for name, value in sorted(selector.get("matchLabels", {}).items())]
    for each in selector.get("matchExpressions") or ():
        key, values = each["key"], ",".join(sorted(each.get("values") or ()))
        match each["operator"]:
            case "Exists":
                parts.append(key)
            case "DoesNotExist":
                parts.append(f"!{key}")
            case operator:
                parts.append(f"{key} {operator.lower()} ({values})")
    return joined(parts) or NONE


def containers_text(spec: Document) -> tuple[str, str]:
    """Return the names and the images of the containers, each as one cell."""
    containers = spec.get("containers") or ()
    names = joined(each["name"] for each in containers)
    return names, joined(each.get("image", "") for each in containers)
