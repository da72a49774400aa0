"""The programs of a node besides the control plane: built once, or from the distribution."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import attrs

from tests.proofs.real_cluster import binaries
from tests.proofs.real_cluster.binaries import MissingBinariesError

KUBERNETES = binaries.of_kubernetes("kubelet", "kube-proxy")
SOURCES = Path(__file__).with_name("programs")
OWN = ("coredns", "pause")
CNI_PLUGINS = Path("/usr/lib/cni")
NICENESS = 10


@attrs.frozen
class Tool:
    """A package of the distribution, and a file that shows whether it is installed."""

    path: str
    package: str

    def is_there(self) -> bool:
        return shutil.which(self.path) is not None


TOOLS = (
    Tool("containerd", "containerd"),
    Tool("runc", "runc"),
    Tool(str(CNI_PLUGINS / "bridge"), "containernetworking-plugins"),
    Tool("iptables", "iptables"),
    Tool("ip", "iproute2"),
    Tool("unshare", "util-linux"),
)


def find() -> Path:
    """Return the folder that holds the programs, or raise MissingBinariesError."""
    folder = _folder()
    if not folder.is_dir():
        raise MissingBinariesError(
            f"no {', '.join((*KUBERNETES.packages, *OWN))} is built yet:"
            " run `nox -s node`, which builds them once with Go"
        )
    return folder


def find_or_build() -> Path:
    if _folder().is_dir():
        return _folder()
    go = shutil.which("go")
    if go is None:
        raise MissingBinariesError("a real node needs a Go toolchain on PATH to build its kubelet")

    def fill(work: Path, output: Path) -> None:
        binaries.build(KUBERNETES, go, work / "kubernetes", output)
        shutil.copytree(SOURCES, work / "own")
        for name in OWN:
            sys.stderr.write(f"building {name}\n")
            flags = "-ldflags=-s -w"
            binaries.run_go(
                go, work / "own", "build", flags, "-o", str(output / name), f"./{name}"
            )

    return binaries.made_once(_folder(), fill)


def install_tools() -> None:
    """Install the missing packages of the distribution, and report them."""
    missing = [tool.package for tool in TOOLS if not tool.is_there()]
    if not missing:
        return
    if shutil.which("apt-get") is None:
        raise MissingBinariesError(
            f"a real node needs {', '.join(missing)}: install what your distribution calls so"
        )
    sys.stderr.write(f"installing {', '.join(missing)} with apt-get\n")
    apt_get("update")
    apt_get("install", "--no-install-recommends", *missing)


def _folder() -> Path:
    """Return the folder, whose name is a digest of versions and of our own sources."""
    digest = hashlib.sha256()
    for path in sorted(SOURCES.rglob("*.*")):
        digest.update(f"{path.relative_to(SOURCES)}\0".encode() + path.read_bytes())
    return binaries.cache("node") / f"{binaries.key([KUBERNETES])}_{digest.hexdigest()[:12]}"


def apt_get(*arguments: str) -> None:
    _run(["apt-get", "-y", "-qq", *arguments])


def _run(command: list[str]) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MissingBinariesError(f"{' '.join(command)} failed: {done.stderr.strip()[-2000:]}")


def main() -> None:
    os.nice(NICENESS)  # a build of minutes may yield to everything else
    try:
        install_tools()
        sys.stdout.write(f"{find_or_build()}\n")
    except MissingBinariesError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
