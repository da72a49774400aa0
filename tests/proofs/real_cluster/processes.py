"""What it takes to run programs beside a test: a keeper, ports, and the ends of their logs."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

KEEPER = Path(__file__).with_name("keeper.py")
TAIL_LINES = 15


class Keeper:
    """Speaks to the process that starts the programs and outlives us by just their end.

    From any thread.
    """

    def __init__(
        self, folder: Path, shared: Path, *, program: Sequence[str] = ("-I", "-S", str(KEEPER))
    ) -> None:
        """At the end the folder goes, and what its files mention of the shared one."""
        self._process = subprocess.Popen(
            [sys.executable, *program, folder, shared],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # the terminal's Ctrl-C is for the tests alone
        )
        self._lock = Lock()

    def start(self, name: str, argv: list[str], log: Path) -> int:
        """The process id."""
        return int(self._ask({"start": name, "argv": argv, "log": str(log)}))

    def poll(self, name: str) -> int | None:
        """The exit code of a program that ended by itself."""
        answer: int | None = self._ask({"poll": name})
        return answer

    def kill(self, name: str) -> int:
        """At once, as a crash would; the exit code."""
        return int(self._ask({"kill": name}))

    def close(self) -> None:
        """Returns when all programs and the folder are gone."""
        self._process.communicate()

    def _ask(self, command: dict[str, Any]) -> Any:
        assert self._process.stdin
        assert self._process.stdout
        with self._lock:
            self._process.stdin.write(f"{json.dumps(command)}\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())


@contextmanager
def reserved_port() -> Iterator[int]:
    """Bound but never listened on: the kernel gives it to nobody who does not name it."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def tail_of(log: Path) -> str:
    if not log.exists():
        return "(nothing)"
    return "\n".join(log.read_text(errors="replace").splitlines()[-TAIL_LINES:])
