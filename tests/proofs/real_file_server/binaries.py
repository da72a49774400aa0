"""The real file server: built once with cargo, in the version that Pods run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from gpuruntime.settings.schema import HelperSettings
from tests.proofs.real_cluster.binaries import MissingBinariesError, cache, made_once

VERSION: Final = HelperSettings().accessorImage.rpartition(":v")[2]


def find() -> Path:
    program = _folder() / "dufs"
    if not program.is_file():
        raise MissingBinariesError(
            f"no dufs {VERSION} is built yet: run `nox -s cluster`, which builds it with cargo"
        )
    return program


def find_or_build() -> Path:
    cargo = shutil.which("cargo")
    if cargo is None and not _folder().is_dir():
        raise MissingBinariesError(f"dufs {VERSION} needs cargo on the PATH to be built")

    def fill(work: Path, output: Path) -> None:
        sys.stderr.write(f"building dufs {VERSION}\n")
        made = work / "made"
        options = ("--locked", "--no-default-features", "--root", made)
        command = [str(cargo), "install", "dufs", "--version", VERSION, *map(str, options)]
        environment = {**os.environ, "CARGO_TARGET_DIR": str(work / "target")}
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise MissingBinariesError(f"cargo install failed: {done.stderr.strip()[-2000:]}")
        (made / "bin/dufs").rename(output / "dufs")

    return made_once(_folder(), fill) / "dufs"


def _folder() -> Path:
    return cache("dufs") / f"dufs-{VERSION}"


def main() -> None:
    try:
        sys.stdout.write(f"{find_or_build()}\n")
    except MissingBinariesError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
