"""The program as processes beside a test, each with its own configuration file."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.eventually import eventually_blocking
from tests.proofs.real_cluster.processes import Keeper
from tests.proofs.real_cluster.product import NOWHERE, Process

ANY_PORT = "127.0.0.1:0"
# The last line that dev prints when all roles are up.
UP = " units list\n"


def suggested(text: str) -> list[str]:
    """Return the commands that the banner of dev suggests."""
    _, _, commands = text.partition("try, in another terminal\n")
    return [line[2:] for line in commands.splitlines() if line.startswith("  ")]


class Programs:
    def __init__(self, keeper: Keeper, folder: Path) -> None:
        self.folder = folder
        self._keeper = keeper
        self._count = 0

    def start(
        self, role: str, *flags: str, on_path: Path | None = None, **settings: Any
    ) -> Process:
        """Start a role, by default on free ports. `on_path` is a folder ahead of the PATH."""
        self._count += 1
        name = f"{role}-{self._count}"
        config = self.folder / f"{name}.yaml"
        own = {"listen": ANY_PORT, "operations": {"listen": ANY_PORT}}
        config.write_text(yaml.safe_dump({**own, **settings}))
        argv = [sys.executable, "-m", "gpuruntime", role, "--config", str(config), *flags]
        if on_path:
            argv = ["env", f"PATH={on_path}:{os.environ['PATH']}", *argv]
        return Process(self._keeper, name, self.folder / f"{name}.log", argv)

    def cluster(self) -> Path:
        """Start the embedded cluster without any role. Return its kubeconfig."""
        process = self.start("dev", "--only", "cluster")
        return Path(printed(process, "kubeconfig"))

    def dev(self, *flags: str, on_path: Path | None = None, **settings: Any) -> Process:
        process = self.start("dev", *flags, on_path=on_path, **settings)
        wait_for(process, UP)
        return process


@contextmanager
def programs(folder: Path) -> Iterator[Programs]:
    """Yield a starter of programs. All that it started ends with the block."""
    keeper = Keeper(Path(tempfile.mkdtemp(prefix="gpuruntime-roles-")), NOWHERE)
    try:
        yield Programs(keeper, folder)
    finally:
        keeper.close()


def printed(process: Process, word: str) -> str:
    """Return what dev prints after this word."""
    text = wait_for(process, f"{word} ")
    line = next(line for line in text.splitlines() if line.startswith(f"{word} "))
    return line.split()[1]


def wait_for(process: Process, words: str) -> str:
    """Wait until the log contains these words. Return the log."""
    text = eventually_blocking(
        process.log.read_text,
        lambda text: words in text or process.has_ended,
        explain=process.tail,
    )
    assert words in text, f"{process.name} ended; the end of its log:\n{process.tail()}"
    return text
