"""Views as rows for people, and as JSON or YAML for programs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, Final

import msgspec
import yaml

from gpuruntime.client.storages import FileEntry
from gpuruntime.commands.terminal import line, plain
from gpuruntime.models.views.operators import Job, NodeView, SpecView
from gpuruntime.models.views.pools import PoolView
from gpuruntime.models.views.serverless import (
    AcceptedView,
    DeadLetterView,
    FunctionView,
    InvocationView,
)
from gpuruntime.models.views.storages import StorageView
from gpuruntime.models.views.units import EventView, UnitView

Cells = tuple[str, ...]
# Each column is a member of the view, or made from it; a moment's member, such as `createdAt`,
# shows its age.
Columns = Mapping[str, str | Callable[[Any], object]]

_GAP: Final = "   "
_WIDEST: Final = 120
_UNITS_OF_AGE: Final = ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))
# An age is given in the largest unit that fits into it at least twice.
_COARSE: Final = 2

COLUMNS: Final[Mapping[type, Columns]] = {
    UnitView: {
        "NAME": "name",
        "SPEC": "specName",
        "PHASE": "phase",
        "REASON": "reason",
        "ACCESS": "accessURL",
        "NODE": "nodeName",
        "AGE": "createdAt",
    },
    PoolView: {
        "NAME": "name",
        "SPEC": "specName",
        "REFILL": "refill",
        "PHASE": "phase",
        "WANTED": "replicas",
        "AVAILABLE": "available",
        "CLAIMED": "claimed",
        "CONSUMED": "consumed",
        "AGE": "createdAt",
    },
    Job: {
        "OPERATION": "operationID",
        "STATUS": "status",
        "POOL": "objectName",
        "REQUESTED": "requested",
        "CREATED": "created",
        "READY": "ready",
        "CONSUMED": "consumed",
        "ERROR": "error",
    },
    StorageView: {
        "NAME": "name",
        "SIZE": lambda view: view.capacity or view.size,
        "PHASE": "phase",
        "REASON": "reason",
        "FILES": lambda view: view.accessorStatus.phase or "off",
        "MOUNTED BY": lambda view: ",".join(view.mountedBy),
        "AGE": "createdAt",
    },
    FunctionView: {
        "FUNCTION": "serverlessRequestID",
        "UNIT": "unitName",
        "QUEUED": "queueDepth",
        "RUNNING": "running",
        "OLDEST": lambda view: f"{view.oldestWaitSeconds:.1f}s",
        "WORKERS": lambda view: f"{view.workers.ready}/{view.workers.desired}",
        "MOST": "maxWorkers",
        "REASON": lambda view: view.reason or ("suspended" if view.suspended else ""),
    },
    AcceptedView: {
        "INVOCATION": "invocationID",
        "FUNCTION": "serverlessRequestID",
        "KNOWN": lambda view: "already" if view.duplicate else "new",
        "ACCEPTED": "acceptedAt",
    },
    InvocationView: {
        "INVOCATION": "invocationID",
        "FUNCTION": "serverlessRequestID",
        "STATE": "state",
        "ATTEMPT": "attempt",
        "WORKER": "workerName",
        "STATUS": lambda view: view.statusCode or "",
        "ERROR": lambda view: _joined(view.failureClass, view.error and view.error.message),
    },
    DeadLetterView: {
        "LETTER": "deadLetterID",
        "FUNCTION": "serverlessRequestID",
        "INVOCATION": "invocationID",
        "ATTEMPTS": "attempt",
        "CLASS": "failureClass",
        "ERROR": "error",
        "AGE": "deadAt",
    },
    EventView: {
        "SEEN": "lastSeenAt",
        "TYPE": "type",
        "REASON": "reason",
        "OBJECT": lambda view: f"{view.objectKind}/{view.objectName}",
        "TIMES": "count",
        "MESSAGE": "message",
    },
    FileEntry: {
        "NAME": lambda view: f"{view.name}/" if view.is_folder else view.name,
        "SIZE": lambda view: "" if view.is_folder or view.size is None else view.size,
    },
    NodeView: {
        "NODE": "name",
        "READY": lambda view: "yes" if view.ready else "no",
        "PRODUCT": "gpuProduct",
        "GPUS": "gpuAllocatable",
        "CPU": "cpuAllocatable",
        "MEMORY": "memoryAllocatable",
    },
    SpecView: {
        "SPEC": "specName",
        "AVAILABLE": "stock.available",
        "STOCK": "stock.total",
        "ACTIVE": "active.total",
        "READY": "active.ready",
        "FAILED": "active.failed",
    },
}


def header_of(model: type) -> Cells:
    return tuple(COLUMNS[model])


def row_of(view: Any, now: datetime) -> Cells:
    return tuple(_cell(_read(column, view, now)) for column in COLUMNS[type(view)].values())


def table(model: type, views: Iterable[Any], now: datetime) -> str:
    return aligned([header_of(model), *(row_of(view, now) for view in views)])


def aligned(rows: Sequence[Cells]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        _GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def details(view: Any, now: datetime) -> str:
    """Return all columns of a row, uncut, and the view's conditions, one member per line."""
    pairs = [
        (name.capitalize(), line(str(_read(column, view, now))))
        for name, column in COLUMNS[type(view)].items()
    ]
    pairs += [("Message", line(getattr(view, "message", "")))]
    for each in getattr(view, "conditions", ()):
        pairs.append((each.type, line(f"{each.status} {_joined(each.reason, each.message)}")))
    pairs += [("Operation", line(getattr(view, "operationID", "")))]
    width = max(len(name) for name, _ in pairs) + 1
    return "\n".join(f"{f'{name}:'.ljust(width)} {text}" for name, text in pairs if text)


def as_json(value: Any) -> str:
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    return plain(text, keep="\n")


def as_yaml(value: Any) -> str:
    """Return YAML in Unicode if every character is printable, else in ASCII."""
    members = msgspec.to_builtins(value)
    text = yaml.safe_dump(members, allow_unicode=True, sort_keys=False).rstrip("\n")
    if plain(text, keep="\n") == text:
        return text
    return yaml.safe_dump(members, allow_unicode=False, sort_keys=False).rstrip("\n")


def age(moment: datetime | None, now: datetime) -> str:
    """Return a short age, never negative: the clocks of two machines differ."""
    if moment is None:
        return ""
    seconds = max(0, int((now - moment).total_seconds()))
    for size, letter in _UNITS_OF_AGE:
        if seconds >= _COARSE * size:
            return f"{seconds // size}{letter}"
    return f"{seconds}s"


def _read(column: str | Callable[[Any], object], view: Any, now: datetime) -> object:
    if not isinstance(column, str):
        return column(view)
    value = attrgetter(column)(view)
    return age(value, now) if column.endswith("At") else value


def _cell(value: object) -> str:
    text = line(str(value))
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"


def _joined(reason: str | None, message: str) -> str:
    return ": ".join(each for each in (reason, message) if each)
