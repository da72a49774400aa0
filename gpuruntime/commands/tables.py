"""Views as rows for people, and as JSON or YAML for programs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
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
Columns = Mapping[str, Callable[[Any, datetime], object]]

_GAP: Final = "   "
_WIDEST: Final = 120
_UNITS_OF_AGE: Final = ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))
# An age is given in the largest unit that fits into it at least twice.
_COARSE: Final = 2

COLUMNS: Final[Mapping[type, Columns]] = {
    UnitView: {
        "NAME": lambda view, _: view.name,
        "SPEC": lambda view, _: view.specName,
        "PHASE": lambda view, _: view.phase,
        "REASON": lambda view, _: view.reason,
        "ACCESS": lambda view, _: view.accessURL,
        "NODE": lambda view, _: view.nodeName,
        "AGE": lambda view, now: age(view.createdAt, now),
    },
    PoolView: {
        "NAME": lambda view, _: view.name,
        "SPEC": lambda view, _: view.specName,
        "REFILL": lambda view, _: view.refill,
        "PHASE": lambda view, _: view.phase,
        "WANTED": lambda view, _: view.replicas,
        "AVAILABLE": lambda view, _: view.available,
        "CLAIMED": lambda view, _: view.claimed,
        "CONSUMED": lambda view, _: view.consumed,
        "AGE": lambda view, now: age(view.createdAt, now),
    },
    Job: {
        "OPERATION": lambda view, _: view.operationID,
        "STATUS": lambda view, _: view.status,
        "POOL": lambda view, _: view.objectName,
        "REQUESTED": lambda view, _: view.requested,
        "CREATED": lambda view, _: view.created,
        "READY": lambda view, _: view.ready,
        "CONSUMED": lambda view, _: view.consumed,
        "ERROR": lambda view, _: view.error,
    },
    StorageView: {
        "NAME": lambda view, _: view.name,
        "SIZE": lambda view, _: view.capacity or view.size,
        "PHASE": lambda view, _: view.phase,
        "REASON": lambda view, _: view.reason,
        "FILES": lambda view, _: view.accessorStatus.phase or "off",
        "MOUNTED BY": lambda view, _: ",".join(view.mountedBy),
        "AGE": lambda view, now: age(view.createdAt, now),
    },
    FunctionView: {
        "FUNCTION": lambda view, _: view.serverlessRequestID,
        "UNIT": lambda view, _: view.unitName,
        "QUEUED": lambda view, _: view.queueDepth,
        "RUNNING": lambda view, _: view.running,
        "OLDEST": lambda view, _: f"{view.oldestWaitSeconds:.1f}s",
        "WORKERS": lambda view, _: f"{view.workers.ready}/{view.workers.desired}",
        "MOST": lambda view, _: view.maxWorkers,
        "REASON": lambda view, _: view.reason or ("suspended" if view.suspended else ""),
    },
    AcceptedView: {
        "INVOCATION": lambda view, _: view.invocationID,
        "FUNCTION": lambda view, _: view.serverlessRequestID,
        "KNOWN": lambda view, _: "already" if view.duplicate else "new",
        "ACCEPTED": lambda view, now: age(view.acceptedAt, now),
    },
    InvocationView: {
        "INVOCATION": lambda view, _: view.invocationID,
        "FUNCTION": lambda view, _: view.serverlessRequestID,
        "STATE": lambda view, _: view.state,
        "ATTEMPT": lambda view, _: view.attempt,
        "WORKER": lambda view, _: view.workerName,
        "STATUS": lambda view, _: view.statusCode or "",
        "ERROR": lambda view, _: _joined(view.failureClass, view.error and view.error.message),
    },
    DeadLetterView: {
        "LETTER": lambda view, _: view.deadLetterID,
        "FUNCTION": lambda view, _: view.serverlessRequestID,
        "INVOCATION": lambda view, _: view.invocationID,
        "ATTEMPTS": lambda view, _: view.attempt,
        "CLASS": lambda view, _: view.failureClass,
        "ERROR": lambda view, _: view.error,
        "AGE": lambda view, now: age(view.deadAt, now),
    },
    EventView: {
        "SEEN": lambda view, now: age(view.lastSeenAt, now),
        "TYPE": lambda view, _: view.type,
        "REASON": lambda view, _: view.reason,
        "OBJECT": lambda view, _: f"{view.objectKind}/{view.objectName}",
        "TIMES": lambda view, _: view.count,
        "MESSAGE": lambda view, _: view.message,
    },
    FileEntry: {
        "NAME": lambda view, _: f"{view.name}/" if view.is_folder else view.name,
        "SIZE": lambda view, _: "" if view.is_folder or view.size is None else view.size,
    },
    NodeView: {
        "NODE": lambda view, _: view.name,
        "READY": lambda view, _: "yes" if view.ready else "no",
        "PRODUCT": lambda view, _: view.gpuProduct,
        "GPUS": lambda view, _: view.gpuAllocatable,
        "CPU": lambda view, _: view.cpuAllocatable,
        "MEMORY": lambda view, _: view.memoryAllocatable,
    },
    SpecView: {
        "SPEC": lambda view, _: view.specName,
        "AVAILABLE": lambda view, _: view.stock.available,
        "STOCK": lambda view, _: view.stock.total,
        "ACTIVE": lambda view, _: view.active.total,
        "READY": lambda view, _: view.active.ready,
        "FAILED": lambda view, _: view.active.failed,
    },
}


def header_of(model: type) -> Cells:
    return tuple(COLUMNS[model])


def row_of(view: Any, now: datetime) -> Cells:
    return tuple(_cell(read(view, now)) for read in COLUMNS[type(view)].values())


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
        (name.capitalize(), line(str(read(view, now))))
        for name, read in COLUMNS[type(view)].items()
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


def _cell(value: object) -> str:
    text = line(str(value))
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"


def _joined(reason: str | None, message: str) -> str:
    return ": ".join(each for each in (reason, message) if each)
