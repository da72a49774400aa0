"""The events of a run, line by line, and one digest of all of them."""

import asyncio
import hashlib
from collections.abc import Callable

import attrs


@attrs.frozen(slots=True)
class Entry:
    moment: float
    source: str
    text: str

    def __str__(self) -> str:
        return f"{self.moment:11.6f}  {self.source:<12} {self.text}"


class EventLog:
    """The log of a run. Equal digests mean equal runs; `print_line` receives each line at once."""

    def __init__(self, print_line: Callable[[str], None] | None = None) -> None:
        self.length = 0
        self._digest = hashlib.sha256()
        self._print_line = print_line

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()

    def write(self, source: str, text: str) -> None:
        line = str(Entry(asyncio.get_running_loop().time(), source, text))
        self.length += 1
        self._digest.update(line.encode())
        if self._print_line:
            self._print_line(line)
