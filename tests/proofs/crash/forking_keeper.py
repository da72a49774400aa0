"""A keeper that forks the product's roles instead of executing them, so that a restart is fast.

A child is a normal process with its own id, log and exit code. The keeper has one thread; it has
imported the product and run none of its code when it forks.
"""

import os
import signal
import sys
import traceback
from pathlib import Path

import attrs

# Imported here so that the forked children need not import them.
import gpuruntime.roles.api
import gpuruntime.roles.lifecycle
import gpuruntime.roles.manager  # noqa: F401
from gpuruntime import cli
from tests.proofs.real_cluster import keeper

# The arguments before those of the role: the interpreter, -m, and the program.
PREFIX = 3
CRASH = 1


@attrs.define
class Forked:
    """A forked child with the part of Popen's interface that a keeper uses."""

    pid: int
    _code: int | None = None

    def poll(self) -> int | None:
        return self._reap(os.WNOHANG)

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        code = self._reap(0)
        return CRASH if code is None else code

    def _reap(self, options: int) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self.pid, options)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code


class ForkingKeeper(keeper.Keeper):
    def _start(self, argv: list[str], log: Path) -> keeper.Child:
        output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        pid = os.fork()
        if not pid:
            os._exit(_live(argv, output))
        os.close(output)
        return Forked(pid)


def _live(argv: list[str], output: int) -> int:
    keeper.die_with_parent()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    try:
        return cli.main(argv[PREFIX:])
    except BaseException:  # noqa: BLE001 - as the interpreter would at the end of a program
        traceback.print_exc()
        return CRASH
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


if __name__ == "__main__":
    keeper.main(ForkingKeeper())
