"""A cgroup for all Pods of a node, in every hierarchy of the machine, and its removal."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")
PREFIX = "gpuruntime-node-"
PATIENCE_SECONDS = 10.0
POLL_SECONDS = 0.1


class CgroupError(Exception):
    pass


@contextmanager
def cgroup(name: str) -> Iterator[str]:
    """Yield the kubelet's root cgroup; processes that remain in it at the end are killed."""
    folders = [hierarchy / name for hierarchy in hierarchies()]
    try:
        for folder in folders:
            folder.mkdir()
            _inherit_cpus(folder)
        yield f"/{name}"
    finally:
        for folder in folders:
            remove(folder)


def hierarchies() -> list[Path]:
    """Return the only hierarchy of cgroup v2, or the hierarchy of each controller of v1."""
    if (MOUNT / "cgroup.controllers").exists():
        return [MOUNT]
    folders = [path for path in MOUNT.iterdir() if path.is_dir() and not path.is_symlink()]
    return sorted(path for path in folders if (path / "cgroup.procs").exists())


def remove(folder: Path) -> None:
    """Remove the cgroup from the leaves up; a killed process takes a moment to leave it."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while folder.exists():
        _kill_members(folder)
        for path, _, _ in os.walk(folder, topdown=False):
            with suppress(OSError):
                Path(path).rmdir()
        if folder.exists() and time.monotonic() > deadline:
            raise CgroupError(f"{folder} is still in use: end what its cgroup.procs names")
        if folder.exists():
            time.sleep(POLL_SECONDS)


def _kill_members(folder: Path) -> None:
    for path, _, _ in os.walk(folder):
        with suppress(OSError):
            for pid in (Path(path) / "cgroup.procs").read_text().split():
                os.kill(int(pid), signal.SIGKILL)


def _inherit_cpus(folder: Path) -> None:
    """Copy the parent's cpuset, because a new cpuset of v1 is empty and accepts no process."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        if (folder / name).exists() and (folder.parent / "tasks").exists():
            (folder / name).write_text((folder.parent / name).read_text())
