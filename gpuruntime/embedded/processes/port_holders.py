"""The program that listens at a port of this machine, as far as /proc shows it to this user."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
_LISTENS: Final = "0A"
_PORT: Final = 1
_STATE: Final = 3
_INODE: Final = 9


def holder_of(port: int, proc: Path = PROC) -> str:
    """Return the name and the id of the process, or nothing if they cannot be read."""
    sockets = {f"socket:[{inode}]" for inode in _inodes(port, proc)}
    if sockets:
        for process in proc.glob("[0-9]*"):
            if sockets & set(_open_files(process)):
                return _named(process)
    return ""


def _inodes(port: int, proc: Path) -> Iterator[str]:
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in (proc / "net" / table).read_text().splitlines()[1:]:
                fields = line.split()
                listens = fields[_STATE] == _LISTENS
                if listens and int(fields[_PORT].rpartition(":")[2], 16) == port:
                    yield fields[_INODE]


def _open_files(process: Path) -> Iterator[str]:
    """Yield what the process has open; the files of other users cannot be read."""
    with suppress(OSError):
        for descriptor in (process / "fd").iterdir():
            with suppress(OSError):
                yield str(descriptor.readlink())


def _named(process: Path) -> str:
    if process.name == str(os.getpid()):
        return "gpuruntime dev itself"
    with suppress(OSError):
        name = re.sub(r"\s+", " ", (process / "comm").read_text()).strip()
        return f"{name} (process {process.name})"
    return f"process {process.name}"
