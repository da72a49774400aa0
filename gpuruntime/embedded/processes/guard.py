"""Ends the processes of somebody who is gone. It runs by itself, without the project on its path.

A line `+ID` on its stdin puts a group of processes under its guard, `-ID` takes one from it. The
end of stdin, which also a killed parent brings about, ends all that are left, and removes the
folders of the command line.
"""

import os
import shutil
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress


def main(lines: Iterable[str], folders: Iterable[str]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # only the end of stdin ends it
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
