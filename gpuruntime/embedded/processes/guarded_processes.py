"""Processes that end with this program, even if it is killed: a guard process then ends them."""

import asyncio
import errno
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO, Final

GUARD: Final = Path(__file__).with_name("guard.py")


class Process:
    """A process, together with its children that stay in its process group."""

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
        """Wait for the process; return its exit code, or minus the number of the signal."""
        code = await self._process.wait()
        self.send(signal.SIGKILL)  # for children that it left behind
        self._guard.forget(self.pid)
        return code

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the group; do nothing if it is gone."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    async def kill(self) -> None:
        self.send(signal.SIGKILL)
        await self.ended()


class Processes:
    """Starts processes under a guard, which itself starts with the first process."""

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
        """Start a process.

        Raise OSError if the program or the folder does not exist, or if a text contains NUL.
        """
        with log.open("ab") as output:
            files = (subprocess.DEVNULL, output, output)
            return await self.start_with(files, argv, environment=environment, folder=folder)

    async def start_with(
        self,
        files: tuple[int | IO[bytes], int | IO[bytes], int | IO[bytes]],
        argv: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        folder: str = "",
        leads_session: bool = False,
    ) -> Process:
        """Start a process with these as stdin, stdout and stderr; raise OSError as `start`."""
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=files[0],
                stdout=files[1],
                stderr=files[2],
                env=environment,
                cwd=folder or None,
                # Either way, Ctrl-C in the terminal reaches only this program.
                start_new_session=leads_session,
                process_group=None if leads_session else 0,
            )
        except ValueError as error:  # a NUL, for example, which a Secret may contain
            words = f"the command, its folder or a variable cannot be given to a process: {error}"
            raise OSError(errno.EINVAL, words) from error
        self._write_line(f"+{process.pid}")
        return Process(process, self)

    def forget(self, pid: int) -> None:
        self._write_line(f"-{pid}")

    def close(self) -> None:
        """End the remaining processes and delete the folders."""
        if self._guard is not None:
            self._guard.communicate()

    def _write_line(self, line: str) -> None:
        if self._guard is None:
            self._guard = subprocess.Popen(  # noqa: S603 - a program of our own
                [sys.executable, "-I", "-S", GUARD, *self._folders],
                stdin=subprocess.PIPE,
                start_new_session=True,
            )
        stdin = self._guard.stdin
        if stdin is not None and not stdin.closed:
            with suppress(BrokenPipeError):  # the guard was killed: nothing is guarded any more
                stdin.write(f"{line}\n".encode())
                stdin.flush()


@asynccontextmanager
async def guarded(*folders: Path) -> AsyncIterator[Processes]:
    """Yield a starter of processes; the end of the block ends them and deletes the folders."""
    processes = Processes(folders)
    try:
        yield processes
    finally:
        processes.close()
