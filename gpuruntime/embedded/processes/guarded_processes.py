"""Processes that end with us, however we end: a guard beside us outlives us by just their end."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

GUARD: Final = Path(__file__).with_name("guard.py")


class Process:
    """With whatever it started itself, as long as that stays in its group."""

    def __init__(self, process: asyncio.subprocess.Process, guard: "Processes") -> None:
        self._process = process
        self._guard = guard

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._process.returncode is not None

    async def ended(self) -> int:
        """Its exit code; minus the number of the signal that ended it."""
        code = await self._process.wait()
        self.send(signal.SIGKILL)  # to what it has left behind
        self._guard.forget(self.pid)
        return code

    def send(self, number: signal.Signals) -> None:
        """Nothing happens where it is gone."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    async def kill(self) -> None:
        self.send(signal.SIGKILL)
        await self.ended()


class Processes:
    """The guard is there from the first process on."""

    def __init__(self, folders: Sequence[Path] = ()) -> None:
        self._folders = folders
        self._guard: subprocess.Popen[bytes] | None = None

    async def start(
        self,
        argv: Sequence[str],
        *,
        log: Path,
        environment: Mapping[str, str] | None = None,
        folder: str = "",
    ) -> Process:
        """Raises OSError where there is no such program, or no such folder to work in."""
        with log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                cwd=folder or None,
                process_group=0,  # the terminal's Ctrl-C is for us alone
            )
        self._tell(f"+{process.pid}")
        return Process(process, self)

    def forget(self, pid: int) -> None:
        self._tell(f"-{pid}")

    def close(self) -> None:
        """Ends what is left, and removes the folders."""
        if self._guard is not None:
            self._guard.communicate()

    def _tell(self, line: str) -> None:
        if self._guard is None:
            self._guard = subprocess.Popen(  # noqa: S603 - a program of our own
                [sys.executable, "-I", "-S", GUARD, *self._folders],
                stdin=subprocess.PIPE,
                start_new_session=True,
            )
        stdin = self._guard.stdin
        if stdin is not None and not stdin.closed:
            with suppress(BrokenPipeError):  # somebody has ended it: nothing is guarded any more
                stdin.write(f"{line}\n".encode())
                stdin.flush()


@asynccontextmanager
async def guarded(*folders: Path) -> AsyncIterator[Processes]:
    """What is started ends with the block, if it has not before; the folders go as well."""
    processes = Processes(folders)
    try:
        yield processes
    finally:
        processes.close()
