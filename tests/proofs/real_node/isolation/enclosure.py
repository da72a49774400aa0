"""A command that runs other commands where a node can start without changing the machine.

The command gets its own namespaces for processes, mounts and network, so that the kernel removes
everything with its first process. Resources without a namespace are covered: kernel settings by
our own files, container folders by overlays, and cgroups by one that is removed. There is no way
to the outside, so every pull of an image fails at once.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.proofs.real_cluster.keeper import die_with_parent
from tests.proofs.real_node.isolation import cgroups, traces

FOLDER = "GPURUNTIME_NODE_FOLDER"
ADDRESS = "192.168.253.1"
SERVICES = "10.96.0.0/16"
# Short, because sockets in it have paths of at most 108 characters.
PLACES = Path("/tmp")
# The kubelet requires these settings of the whole machine, and writes them if they differ.
SETTINGS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
OVERLAYS = ("/etc", "/var/lib", "/var/log")
NAMESPACES = ("--net", "--mount", "--pid", "--ipc", "--uts", "--fork", "--mount-proc")
SETTLING_SECONDS = 5.0
POLL_SECONDS = 0.2
# The memory of a real GPU node: Pods only request it.
PRETENDED_MEMORY_KIB = 256 * 1024 * 1024


class EnclosureError(Exception):
    pass


def folder() -> Path:
    """Return the folder of the enclosure that this process runs in."""
    found = os.environ.get(FOLDER)
    if found is None or os.getuid() != 0:
        raise EnclosureError("a real node needs root and an enclosure of its own: `nox -s node`")
    return Path(found)


def run(command: Sequence[str]) -> int:
    """Return the command's exit code, or 1 if it leaves a trace on the machine."""
    if os.getuid() != 0:
        raise EnclosureError("a real node needs root: run `nox -s node` as root")

    def enclosed() -> int:
        with _place() as place, cgroups.cgroup(place.name):
            return _enclosed(place, command)

    sweep(PLACES)
    return watched(enclosed)


def watched(
    enclosed: Callable[[], int],
    *,
    take: Callable[[], traces.Traces] = traces.take,
    settling_seconds: float = SETTLING_SECONDS,
) -> int:
    """Return the exit code, or 1 if the machine differs from its state before."""
    before = take()
    code = enclosed()
    deadline = time.monotonic() + settling_seconds
    # The kernel needs a moment to end the processes of the namespaces.
    while (left := traces.differences(before, take())) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    for line in left:
        sys.stderr.write(f"{line}\n")
    sys.stderr.write(f"traces of the node: {len(left) or 'none'}\n")
    return code or (1 if left else 0)


@contextmanager
def _place() -> Iterator[Path]:
    prefix = f"{cgroups.PREFIX}{os.getpid()}-"
    place = Path(tempfile.mkdtemp(prefix=prefix, dir=PLACES))
    place.chmod(0o711)  # programs that refuse to run as root have folders in it
    try:
        yield place
    finally:
        shutil.rmtree(place)


def sweep(places: Path) -> None:
    """Remove the leftovers of runs that were killed before they could clean up."""
    for place in places.glob(f"{cgroups.PREFIX}*-*"):
        owner = place.name.removeprefix(cgroups.PREFIX).partition("-")[0]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            for hierarchy in cgroups.hierarchies():
                cgroups.remove(hierarchy / place.name)
            shutil.rmtree(place)


def _enclosed(place: Path, command: Sequence[str]) -> int:
    """Run the command in new namespaces.

    If this process ends or is killed, the first process ends, and the kernel ends all others.
    """
    unshare = ["unshare", *NAMESPACES, "--kill-child", "--propagation", "slave", "--"]
    inside = [
        sys.executable,
        "-m",
        "tests.proofs.real_node.isolation.enclosure",
        "--inside",
        *command,
    ]
    # Temporary files are deleted with the folder; the logs of tests stay.
    environment = {
        **os.environ,
        FOLDER: str(place),
        "TMPDIR": str(place),
        "PYTEST_DEBUG_TEMPROOT": tempfile.gettempdir(),
    }
    process = subprocess.Popen(
        [*unshare, *inside],
        env=environment,
        preexec_fn=die_with_parent,  # noqa: PLW1509 - one thread
    )
    signal.signal(signal.SIGTERM, lambda *_: process.kill())
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:  # the command received it, too, and ends by itself
            continue


def _set_up(place: Path) -> None:
    # This comes first and without mtab, because mount creates a folder under /run for its notes.
    _run("mount", "--no-mtab", "-t", "tmpfs", "tmpfs", "/run")
    _cover_kernel_settings(place / "settings")
    for path in OVERLAYS:
        _overlay(Path(path), place / "overlays" / path.strip("/").replace("/", "-"))
    _remount_sys(place / "cgroups")
    _run("mount", "--make-rshared", "/")
    _connect()


def _cover_kernel_settings(folder: Path) -> None:
    folder.mkdir()
    for name, value in SETTINGS.items():
        _cover(Path("/proc/sys") / name, folder, f"{value}\n")
    lines = Path("/proc/meminfo").read_text().splitlines(keepends=True)
    total = f"MemTotal:       {PRETENDED_MEMORY_KIB} kB\n"
    _cover(Path("/proc/meminfo"), folder, total + "".join(lines[1:]))


def _cover(path: Path, folder: Path, text: str) -> None:
    own = folder / path.name
    own.write_text(text)
    _run("mount", "--bind", str(own), str(path))


def _overlay(path: Path, folder: Path) -> None:
    for name in ("upper", "work"):
        (folder / name).mkdir(parents=True)
    layers = f"lowerdir={path},upperdir={folder / 'upper'},workdir={folder / 'work'}"
    _run("mount", "-t", "overlay", "overlay", "-o", layers, str(path))


def _remount_sys(kept: Path) -> None:
    """Mount /sys again: it shows the interfaces of the network that it was mounted in."""
    kept.mkdir()
    _run("mount", "--rbind", str(cgroups.MOUNT), str(kept))
    _run("mount", "-t", "sysfs", "sysfs", "/sys")
    _run("mount", "--rbind", str(kept), str(cgroups.MOUNT))


def _connect() -> None:
    """Give the node an address besides loopback, and a route for Services that leads nowhere."""
    _run("ip", "link", "set", "lo", "up")
    _run("ip", "link", "add", "node0", "type", "veth", "peer", "name", "node0-end")
    _run("ip", "address", "add", f"{ADDRESS}/24", "dev", "node0")
    for name in ("node0", "node0-end"):
        _run("ip", "link", "set", name, "up")
    _run("ip", "route", "add", SERVICES, "dev", "node0")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def _first_process(command: Sequence[str]) -> int:
    """Start the command, reap every process, and end with the command."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    process = subprocess.Popen(command, preexec_fn=_default_interrupt)  # noqa: PLW1509 - one thread
    while True:
        pid, status = os.wait()
        if pid == process.pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode


def _default_interrupt() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise EnclosureError(f"{' '.join(command)}: {done.stderr.strip()}")


def main(arguments: list[str]) -> int:
    if arguments[:1] != ["--inside"]:
        return run(arguments)
    _set_up(folder())
    return _first_process(arguments[1:])


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except EnclosureError as error:
        sys.exit(str(error))
