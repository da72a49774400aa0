"""OpenSSH's client and git, installed if they are missing."""

import shutil
import sys
from typing import Final

from tests.proofs.real_cluster.binaries import MissingBinariesError
from tests.proofs.real_node.binaries import apt_get

# By program, the package of Debian that has it.
PACKAGES: Final = {
    "ssh": "openssh-client",
    "scp": "openssh-client",
    "sftp": "openssh-client",
    "git": "git",
}


def demand() -> None:
    """Raise MissingBinariesError if a program is missing."""
    missing = {package for name, package in PACKAGES.items() if shutil.which(name) is None}
    if missing:
        listed = ", ".join(sorted(missing))
        raise MissingBinariesError(
            f"there is no {listed}: run `nox -s cluster` as root, which installs it with apt-get"
        )


def install() -> None:
    try:
        demand()
    except MissingBinariesError:
        if shutil.which("apt-get") is None:
            raise
        sys.stderr.write("installing OpenSSH's client with apt-get\n")
        apt_get("update")
        apt_get("install", "--no-install-recommends", *sorted(set(PACKAGES.values())))
        demand()


def main() -> None:
    try:
        install()
    except MissingBinariesError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
