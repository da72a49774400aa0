"""A program that runs other programs for the process at the other end of its stdin.

Commands and answers are lines of JSON. `{"start": name, "argv": [...], "log": path}`
answers the process id, `{"poll": name}` the exit code or null, `{"kill": name}` the exit code.
Programs are killed without notice, because their data is not needed afterwards.

When stdin ends, which a killed parent also causes, the keeper kills all of its programs. It then
removes the first folder of its command line. In the second folder, which is shared, it removes the
entries that files of the first folder mention by name. It runs by itself, without the project on
its path.
"""

import ctypes
import json
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TextIO

PR_SET_PDEATHSIG = 1


def main(keeper: "Keeper") -> None:
    # These are handlers and not SIG_IGN, which children would inherit. Only the end of stdin ends
    # this process.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    try:
        keeper.serve(sys.stdin, sys.stdout)
    finally:
        keeper.kill_all()
        own, shared = map(Path, sys.argv[1:])
        remove_mentioned(shared, own)
        shutil.rmtree(own, ignore_errors=True)


class Child(Protocol):
    """A started program, with the interface of `subprocess.Popen`."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def kill(self) -> None: ...

    def wait(self) -> int: ...


class Keeper:
    def __init__(self) -> None:
        self._children: dict[str, Child] = {}

    def serve(self, commands: TextIO, answers: TextIO) -> None:
        for line in commands:
            answers.write(f"{json.dumps(self._obey(json.loads(line)))}\n")
            answers.flush()

    def kill_all(self) -> None:
        for name in reversed(list(self._children)):
            self._kill(name)

    def _obey(self, command: dict[str, Any]) -> int | None:
        match command:
            case {"start": name, "argv": argv, "log": log}:
                self._children[name] = child = self._start(argv, Path(log))
                return child.pid
            case {"poll": name}:
                return self._children[name].poll()
            case {"kill": name}:
                return self._kill(name)
            case _:
                raise ValueError(f"unknown command {command}")

    def _start(self, argv: list[str], log: Path) -> Child:
        with log.open("ab") as output:
            return subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # This is safe because this program has one thread.
                preexec_fn=die_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509
            )

    def _kill(self, name: str) -> int:
        child = self._children.pop(name)
        child.kill()
        return child.wait()


def remove_mentioned(shared: Path, own: Path) -> None:
    """Remove the shared entries that own files mention; names of others are random."""
    if not shared.is_dir():
        return
    texts = [file.read_bytes() for file in own.rglob("*") if file.is_file()]
    for path in list(shared.iterdir()):
        if any(path.name.encode() in text for text in texts):
            shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):  # entries of other processes are left in it
        shared.rmdir()


def die_with_parent() -> None:
    """Let the kernel kill a child if the keeper is killed and cannot see stdin end."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    main(Keeper())
