"""Ends processes whose parent is gone; it runs by itself, without the project on its path.

A line `+ID` on its stdin adds a process group, `-ID` removes one. Stdin also ends if the parent is
killed. Then the guard kills the remaining groups and deletes the folders of its command line.
"""

import os
import shutil
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress


def main(lines: Iterable[str], folders: Iterable[str]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # only the end of stdin ends the guard
    groups: set[int] = set()
    for line in lines:
        change = groups.add if line.startswith("+") else groups.discard
        change(int(line[1:]))
    for group in groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.stdin, sys.argv[1:])
