"""Views as rows and details for people."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, Final

from gpuruntime.commands.columns import COLUMNS, FURTHER, MESSAGE
from gpuruntime.commands.terminal import line, plain
from gpuruntime.commands.values import age, joined

Cells = tuple[str, ...]

_GAP: Final = "   "
_WIDEST: Final = 120
# On a terminal a message is cut where the line ends, but a narrow terminal breaks the line rather
# than show less of it than this.
_LEAST_MESSAGE: Final = 20


def header_of(model: type) -> Cells:
    return tuple(COLUMNS[model])


def row(view: Any, now: datetime, width: int | None = None) -> str:
    """Return one row alone, which is not aligned with others; `width` is the terminal's."""
    cells = _cells(view, now, width)
    return _fitted(_GAP.join(cells), len(_GAP.join((*cells[:-1], ""))), type(view), width)


def table(model: type, views: Iterable[Any], now: datetime, width: int | None = None) -> str:
    """Return the rows below their header; `width` is the terminal's, if there is one."""
    lines = aligned([header_of(model), *(_cells(view, now, width) for view in views)]).split("\n")
    last_at = lines[0].rindex(header_of(model)[-1])
    return "\n".join(_fitted(each, last_at, model, width) for each in lines)


def aligned(rows: Sequence[Cells]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        _GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def details(view: Any, now: datetime) -> str:
    """Return all that is known of an object, uncut, one member per line."""
    columns = {**COLUMNS[type(view)], **FURTHER.get(type(view), {})}
    pairs = [
        (name.capitalize(), each)
        for name, column in columns.items()
        for each in _lines(_read(column, view, now))
        if name != MESSAGE
    ]
    message = line(getattr(view, "message", ""))
    if message not in (text for _, text in pairs):
        pairs += [("Message", message)]
    for each in getattr(view, "conditions", ()):
        pairs.append((each.type, f"{each.status} {joined(each.reason, each.message)}"))
    pairs += [("Operation", getattr(view, "operationID", ""))]
    width = max(len(name) for name, _ in pairs) + 1
    rows, last = [], ""
    for name, text in pairs:
        label = "" if name == last else f"{name}:"
        if text:
            rows.append(f"{label.ljust(width)} {plain(text)}".rstrip())
            last = name
    return "\n".join(rows)


def _lines(value: object) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else [line(str(value))]


def _read(column: str | Callable[[Any], object], view: Any, now: datetime) -> object:
    if not isinstance(column, str):
        return column(view)
    value = attrgetter(column)(view)
    return age(value, now) if column.endswith("At") else value


def _cells(view: Any, now: datetime, width: int | None) -> Cells:
    return tuple(
        _cut(line(str(_read(column, view, now))), width if width and name == MESSAGE else _WIDEST)
        for name, column in COLUMNS[type(view)].items()
    )


def _fitted(text: str, last_at: int, model: type, width: int | None) -> str:
    """Return the line, with the message that begins at `last_at` cut to fit the terminal."""
    if width is None or header_of(model)[-1] != MESSAGE:
        return text
    return _cut(text, max(width, last_at + _LEAST_MESSAGE))


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
