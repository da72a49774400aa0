"""Tools to run programs beside a test: a keeper, ports, and the ends of logs."""

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
    """A client of the process that starts the programs and that outlives this one only to end
    them.

    Any thread may call it.
    """

    def __init__(
        self, folder: Path, shared: Path, *, program: Sequence[str] = ("-I", "-S", str(KEEPER))
    ) -> None:
        """Start the keeper; at its end it removes the folder and its shared entries."""
        self._process = subprocess.Popen(
            [sys.executable, *program, folder, shared],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # the terminal's Ctrl-C reaches only the tests
        )
        self._lock = Lock()

    def start(self, name: str, argv: list[str], log: Path) -> int:
        """Start a program and return its process id."""
        return int(self._ask({"start": name, "argv": argv, "log": str(log)}))

    def poll(self, name: str) -> int | None:
        """Return the exit code of a program that ended by itself, or None while it runs."""
        answer: int | None = self._ask({"poll": name})
        return answer

    def kill(self, name: str) -> int:
        """Kill a program at once, as a crash would, and return its exit code."""
        return int(self._ask({"kill": name}))

    def close(self) -> None:
        """Return when all programs have ended and the folder is removed."""
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
    """Yield a port that is bound but not listened on, so that the kernel assigns it to no other
    socket.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def free_port() -> int:
    """Return a port that was free a moment ago, for a program that shares none."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        port: int = holder.getsockname()[1]
        return port


def tail_of(log: Path) -> str:
    if not log.exists():
        return "(nothing)"
    return "\n".join(log.read_text(errors="replace").splitlines()[-TAIL_LINES:])
