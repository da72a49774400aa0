"""A real Prometheus: the distribution's package, unpacked and not installed."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.proofs.real_cluster.binaries import MissingBinariesError, cache, made_once

PACKAGE: Final = "prometheus"
PROGRAMS: Final = ("prometheus", "promtool")


def find() -> Path:
    """Return the folder with both programs. Raise MissingBinariesError if there is none yet."""
    if not _folder().is_dir():
        raise MissingBinariesError(
            "no prometheus is unpacked yet: run `nox -s cluster`, which fetches it with apt-get"
        )
    return _folder()


def find_or_unpack() -> Path:
    if not _folder().is_dir() and shutil.which("apt-get") is None:
        raise MissingBinariesError(
            f"prometheus needs apt-get: or put {' and '.join(PROGRAMS)} into {_folder()}"
        )

    def fill(work: Path, output: Path) -> None:
        sys.stderr.write("unpacking prometheus\n")
        _run(["dpkg-deb", "-x", str(_download(work)), str(work / "files")], work)
        for name in PROGRAMS:
            (work / "files/usr/bin" / name).rename(output / name)

    return made_once(_folder(), fill)


def _download(work: Path) -> Path:
    """Download the package. A fresh machine has no package lists, so update them if needed."""
    command = ["apt-get", "download", "-q", PACKAGE]
    try:
        _run(command, work)
    except MissingBinariesError:
        if os.geteuid() != 0:
            raise
        _run(["apt-get", "update", "-q"], work)
        _run(command, work)
    [package] = work.glob(f"{PACKAGE}_*.deb")
    return package


def _run(command: list[str], work: Path) -> None:
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MissingBinariesError(f"{' '.join(command)} failed: {done.stderr.strip()[-2000:]}")


def _folder() -> Path:
    release = platform.freedesktop_os_release()
    return cache(PACKAGE) / f"{release['ID']}-{release.get('VERSION_ID', 'rolling')}"


def main() -> None:
    try:
        sys.stdout.write(f"{find_or_unpack()}\n")
    except MissingBinariesError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
