"""The browser of the distribution, installed if it is missing."""

import shutil
import sys
from pathlib import Path

from tests.proofs.real_cluster.binaries import MissingBinariesError
from tests.proofs.real_node.binaries import apt_get

NAMES = ("chromium", "chromium-browser", "google-chrome")
PACKAGE = "chromium"


def find() -> Path:
    for name in NAMES:
        if path := shutil.which(name):
            return Path(path)
    raise MissingBinariesError(
        f"there is no {PACKAGE}: run `nox -s cluster` as root, which installs it with apt-get,"
        f" or install what your distribution calls so"
    )


def find_or_install() -> Path:
    try:
        return find()
    except MissingBinariesError:
        if shutil.which("apt-get") is None:
            raise
    sys.stderr.write(f"installing {PACKAGE} with apt-get\n")
    apt_get("update")
    apt_get("install", "--no-install-recommends", PACKAGE)
    return find()


def main() -> None:
    try:
        sys.stdout.write(f"{find_or_install()}\n")
    except MissingBinariesError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
