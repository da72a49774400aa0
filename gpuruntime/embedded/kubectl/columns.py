"""The columns of `kubectl get`: what each kind shows of an object, also to `-o wide`."""

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
    """A wide one shows with `-o wide` alone; the type says how a cell is written."""

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
    """As many cells as columns, for any object of its kind."""

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
    """Two units where the second still tells something, as kubectl shows it."""
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
    """The member at the end of a chain of names; None where the chain breaks."""
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
    """As kubectl writes a selector: equal labels, then expressions."""
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
    """Names and images, each in one cell."""
    containers = spec.get("containers") or ()
    names = joined(each["name"] for each in containers)
    return names, joined(each.get("image", "") for each in containers)
