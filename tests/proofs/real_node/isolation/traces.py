"""Traces that a node could leave on a machine, recorded before and after a run and compared.

Other people use the machine meanwhile. Only programs of a node, processes in their own namespaces
and places that a node writes to are recorded.
"""

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

PROGRAMS = frozenset(
    ("containerd", "containerd-shim", "runc", "kubelet", "kube-proxy", "coredns", "pause")
)
FOLDERS = ("/run", "/var/lib", "/etc/cni", "/var/log/pods", "/var/log/containers")
# Other people create files there, too, and end their own programs.
FILES = re.compile(r"gpuruntime|kube|containerd|runc|cni|netns|xtables|mount|/var/log/")
COMING_AND_GOING = frozenset({"processes"})
SYSCTLS = ("net", "vm", "kernel/keys", "kernel/panic", "kernel/panic_on_oops")
# These change by themselves: counters, and values that the kernel derives from the load.
RESTLESS = re.compile(r"nf_conntrack_count|neigh/|vm/stat_refresh|vm/compact_memory|route/flush")
# Cgroups of other people's sessions come and go.
CGROUPS = re.compile(r"gpuruntime|kube|containerd|runc|pause")
COUNTERS = re.compile(r"\[\d+:\d+\]")

Traces = Mapping[str, frozenset[str]]


def take() -> Traces:
    return {name: frozenset(look()) for name, look in LOOKS.items()}


def differences(before: Traces, after: Traces) -> list[str]:
    """Return one line for each difference, in a stable order."""
    lines = []
    for name in before:
        lines += [f"{name}: left behind: {one}" for one in sorted(after[name] - before[name])]
        lost = () if name in COMING_AND_GOING else before[name] - after[name]
        lines += [f"{name}: lost: {one}" for one in sorted(lost)]
    return lines


def _processes() -> Iterator[str]:
    own = _namespaces("self")
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name = (folder / "comm").read_text().strip()
            if name in PROGRAMS or _namespaces(folder.name) != own:
                yield f"{name} ({folder.name})"
        except OSError:  # the process has ended meanwhile
            continue


def _namespaces(pid: str) -> list[str]:
    return [str(Path(f"/proc/{pid}/ns/{kind}").readlink()) for kind in ("net", "pid", "mnt")]


def _mounts() -> Iterator[str]:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        yield f"{fields[4]} of {fields[fields.index('-') + 1]}"


def _cgroups() -> Iterator[str]:
    for folder, _, _ in os.walk("/sys/fs/cgroup"):
        if CGROUPS.search(folder):
            yield folder


def _rules() -> Iterator[str]:
    for program in ("iptables-save", "ip6tables-save"):
        for line in _lines(program):
            if not line.startswith("#"):
                yield f"{program}: {COUNTERS.sub('', line)}"


def _interfaces() -> Iterator[str]:
    yield from _lines("ip", "-brief", "address")


def _routes() -> Iterator[str]:
    yield from _lines("ip", "route", "show", "table", "all")


def _sysctls() -> Iterator[str]:
    for root in SYSCTLS:
        for folder, _, names in os.walk(f"/proc/sys/{root}"):
            for name in names:
                path = Path(folder) / name
                if not RESTLESS.search(str(path)):
                    yield f"{path} = {_value(path)}"
        path = Path("/proc/sys") / root
        if path.is_file():
            yield f"{path} = {_value(path)}"


def _value(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:  # the file can only be written
        return ""


def _files() -> Iterator[str]:
    """Yield two levels of folders: a trace deeper down has created or changed one of them."""
    for root in map(Path, FOLDERS):
        for pattern in ("*", "*/*"):
            yield from filter(FILES.search, map(str, root.glob(pattern)))


def _lines(*command: str) -> list[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


LOOKS: Mapping[str, Callable[[], Iterator[str]]] = {
    "processes": _processes,
    "mounts": _mounts,
    "cgroups": _cgroups,
    "rules": _rules,
    "interfaces": _interfaces,
    "routes": _routes,
    "kernel settings": _sysctls,
    "files": _files,
}
