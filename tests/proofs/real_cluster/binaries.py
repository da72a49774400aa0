"""The programs of a real control plane: found ready-made, or built once with Go."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

KUBERNETES_VERSION = "v1.34.4"
STAGING_VERSION = "v0.34.4"
VERSION_PACKAGE = "k8s.io/component-base/version"


class MissingBinariesError(Exception):
    """Programs are missing; the message is one line and names the remedy."""


@attrs.frozen(kw_only=True)
class Program:
    """A Go module and the programs built from it, as packages by program name."""

    module: str
    version: str
    packages: dict[str, str]
    linker_flags: str = "-s -w"


def of_kubernetes(*names: str) -> Program:
    return Program(
        module="k8s.io/kubernetes",
        version=KUBERNETES_VERSION,
        packages={name: f"k8s.io/kubernetes/cmd/{name}" for name in names},
        # Without them every version is v0.0.0-master, and kubectl warns about the version skew.
        linker_flags=(
            f"-s -w -X {VERSION_PACKAGE}.gitVersion={KUBERNETES_VERSION}"
            f" -X {VERSION_PACKAGE}.gitMajor=1 -X {VERSION_PACKAGE}.gitMinor=34"
        ),
    )


PROGRAMS = (
    of_kubernetes("kubectl", "kube-apiserver", "kube-controller-manager", "kube-scheduler"),
    Program(
        module="go.etcd.io/etcd/server/v3",
        version="v3.6.10",
        packages={"etcd": "go.etcd.io/etcd/server/v3"},
    ),
    Program(
        module="sigs.k8s.io/kwok",
        version="v0.7.0",
        packages={"kwok": "sigs.k8s.io/kwok/cmd/kwok"},
    ),
)
NAMES = tuple(name for program in PROGRAMS for name in program.packages)


def find() -> Path:
    """Return the folder that holds all six programs, or raise MissingBinariesError."""
    if assets := os.environ.get("KUBEBUILDER_ASSETS"):
        return _complete(Path(assets))
    folder = cache("control-plane") / key(PROGRAMS)
    if not folder.is_dir():
        raise MissingBinariesError(
            "no control plane is built yet: run `nox -s cluster`, which builds it once with Go,"
            " or set KUBEBUILDER_ASSETS to a folder with " + ", ".join(NAMES)
        )
    return folder


def find_or_build() -> Path:
    if os.environ.get("KUBEBUILDER_ASSETS") or (cache("control-plane") / key(PROGRAMS)).is_dir():
        return find()
    go = shutil.which("go")
    if go is None:
        raise MissingBinariesError(
            "the real control plane needs KUBEBUILDER_ASSETS (a folder with "
            + ", ".join(NAMES)
            + ") or a Go toolchain on PATH to build it: neither is there"
        )

    def fill(work: Path, output: Path) -> None:
        for program in PROGRAMS:
            build(program, go, work / min(program.packages), output)

    return made_once(cache("control-plane") / key(PROGRAMS), fill)


def cache(room: str) -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "gpuruntime" / room


def key(programs: Iterable[Program]) -> str:
    return "_".join(f"{min(one.packages)}-{one.version}" for one in programs)


def made_once(folder: Path, fill: Callable[[Path, Path], None]) -> Path:
    """Create the folder completely or not at all; a second process waits for the first.

    `fill` receives a working folder and the folder to fill. Leftovers of a killed process are
    removed first.
    """
    with _locked(folder.with_name(f"{folder.name}.lock")):
        if folder.is_dir():
            return folder
        for left in folder.parent.glob(f"{folder.name}.building-*"):
            shutil.rmtree(left, ignore_errors=True)
        prefix = f"{folder.name}.building-"
        with tempfile.TemporaryDirectory(prefix=prefix, dir=folder.parent) as work:
            output = Path(work) / "bin"
            output.mkdir()
            fill(Path(work), output)
            output.rename(folder)
    return folder


def build(program: Program, go: str, source: Path, output: Path) -> None:
    """Build the programs in a new folder `source` and put them into `output`."""
    source.mkdir()
    run_go(go, source, "mod", "init", f"build/{source.name}")
    for module in _staging_modules(program, go, source):
        run_go(go, source, "mod", "edit", f"-replace={module}={module}@{STAGING_VERSION}")
    paths = program.packages.values()
    run_go(go, source, "get", *(f"{path}@{program.version}" for path in paths))
    for name, path in program.packages.items():
        sys.stderr.write(f"building {name} {program.version}\n")
        target = str(output / name)
        run_go(go, source, "build", f"-ldflags={program.linker_flags}", "-o", target, path)


def run_go(go: str, folder: Path, *arguments: str) -> str:
    """Return the output of go, or raise MissingBinariesError with the end of its error output."""
    flags = f"{os.environ.get('GOFLAGS', '')} -mod=mod".strip()
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": flags, "GOWORK": "off"}
    done = subprocess.run(
        [go, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise MissingBinariesError(f"go {arguments[0]} failed: {done.stderr.strip()[-2000:]}")
    return done.stdout


def _complete(assets: Path) -> Path:
    missing = [name for name in NAMES if not os.access(assets / name, os.X_OK)]
    if missing:
        raise MissingBinariesError(
            f"KUBEBUILDER_ASSETS={assets} lacks {', '.join(missing)}:"
            " add them, or unset the variable to have all built with Go"
        )
    return assets


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock on the file; the kernel releases it even if its holder is killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _staging_modules(program: Program, go: str, source: Path) -> list[str]:
    """Return Kubernetes' own libraries, which it requires at v0.0.0, a version that is not
    published.
    """
    wanted = f"{program.module}@{program.version}"
    go_mod = json.loads(run_go(go, source, "mod", "download", "-json", wanted))["GoMod"]
    required = json.loads(run_go(go, source, "mod", "edit", "-json", go_mod))["Require"]
    return [one["Path"] for one in required if one["Version"] == "v0.0.0"]


def main() -> None:
    try:
        sys.stdout.write(f"{find_or_build()}\n")
    except MissingBinariesError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
