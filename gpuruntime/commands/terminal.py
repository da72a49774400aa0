"""Output of the commands: the answer goes to stdout, everything said about it to stderr.

Text of a server never reaches a terminal raw: every character that is not printable is escaped.
"""

import codecs
import re
import shutil
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import BinaryIO, Final, TextIO

_ERASE: Final = "\r\x1b[K"
_GREEN, _YELLOW, _RED, _PLAIN = "\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[0m"
# The colours of phases and states, wherever one is a whole cell of a table.
_COLOURS: Final = {
    "Ready": _GREEN,
    "succeeded": _GREEN,
    "ok": _GREEN,
    "Progressing": _YELLOW,
    "Pending": _YELLOW,
    "Suspended": _YELLOW,
    "Empty": _YELLOW,
    "Warning": _YELLOW,
    "pending": _YELLOW,
    "queued": _YELLOW,
    "running": _YELLOW,
    "Failed": _RED,
    "failed": _RED,
    "expired": _RED,
    "cancelled": _RED,
    "dead_lettered": _RED,
    "degraded": _RED,
}
_CELL: Final = re.compile(rf"(?m)(?<=  )(?:{'|'.join(_COLOURS)})(?=  |$)")
_BEYOND: Final = 0x10000
# Characters of a message that are printed, however long a server's text is.
_LONGEST_LINE: Final = 4096


def plain(text: str, *, keep: str = "") -> str:
    """Escape unprintable characters as JSON does, so that JSON text keeps its meaning."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in keep else _escaped(ord(each)) for each in text
    )


def line(text: str) -> str:
    """Return the text as one printable line."""
    return plain(" ".join(text.split()))


def coloured(text: str) -> str:
    """Return lines of a table with their phases and states in colour."""
    return _CELL.sub(lambda found: f"{_COLOURS[found[0]]}{found[0]}{_PLAIN}", text)


class Terminal:
    def __init__(
        self,
        *,
        out: TextIO,
        err: TextIO,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        has_colours: bool = False,
        streams: tuple[int, int, int] = (0, 1, 2),
    ) -> None:
        """Create a terminal; with `has_colours`, tables are coloured if stdout is a screen.

        `streams` are the files that a program elsewhere is attached to.
        """
        self.now = now
        self.streams = streams
        self._has_colours = has_colours and out.isatty()
        self._out = out
        self._err = err
        self._is_showing = False
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def binary(self) -> BinaryIO | None:
        """The stream that takes bytes as they are, or None if stdout is a terminal."""
        return None if self._out.isatty() else getattr(self._out, "buffer", None)

    @property
    def width(self) -> int | None:
        """The columns of the screen, or None if stdout is no terminal."""
        return shutil.get_terminal_size().columns if self._out.isatty() else None

    def answer(self, text: str, *, is_table: bool = False) -> None:
        """Print lines; of a server's text inside them, unprintable characters are escaped."""
        self.done_showing()
        escaped = plain(text, keep="\n")
        self._out.write(f"{coloured(escaped) if is_table and self._has_colours else escaped}\n")
        self._out.flush()

    def piece(self, data: bytes) -> None:
        """Print a piece of a log or a file."""
        if self.binary is not None:
            self.binary.write(data)
            self.binary.flush()
            return
        text = self._decoder.decode(data).replace("\r\n", "\n")
        self._out.write(plain(text, keep="\n\t"))
        self._out.flush()

    def report(self, text: str) -> None:
        """Print one line on stderr."""
        self.done_showing()
        self._err.write(f"{line(text[:_LONGEST_LINE])}\n")
        self._err.flush()

    def show(self, news: str, *, whole: str) -> None:
        """Show progress: a terminal gets `whole` in place, any other stderr a line of `news`."""
        if not self._err.isatty():
            self.report(news)
            return
        width = shutil.get_terminal_size().columns - 1
        self._err.write(f"{_ERASE}{line(whole)[:width]}")
        self._err.flush()
        self._is_showing = True

    def show_only(self, text: str) -> None:
        """Show passing news in place, on a terminal alone."""
        if self._err.isatty():
            self.show("", whole=text)

    def done_showing(self) -> None:
        if self._is_showing:
            self._err.write("\n")
            self._is_showing = False


def standard(*, has_colours: bool) -> Terminal:
    return Terminal(out=sys.stdout, err=sys.stderr, has_colours=has_colours)


def _escaped(point: int) -> str:
    if point < _BEYOND:
        return f"\\u{point:04x}"
    above = point - _BEYOND
    return f"\\u{0xD800 + (above >> 10):04x}\\u{0xDC00 + (above & 0x3FF):04x}"
