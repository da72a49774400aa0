"""Checks whether PostgreSQL is available to the suites, and installs it where possible."""

import os
import shutil
import subprocess
import sys

from tests.rooms.serverless.results.database import URL_VARIABLE, MissingDatabaseError, program

PROGRAMS = ("initdb", "postgres", "pg_isready")


def main() -> int:
    missing = _missing()
    if missing and os.environ.get(URL_VARIABLE):
        sys.stderr.write(f"{missing}; without it tests that stop their database will fail\n")
        return 0
    if missing and os.geteuid() == 0 and shutil.which("apt-get"):
        _apt_get("update")
        _apt_get("install", "--no-install-recommends", "postgresql")
        missing = _missing()
    if missing:
        sys.stderr.write(f"{missing}\n")
    return 1 if missing else 0


def _missing() -> str:
    """Return a message about the first missing program, or "" if none is missing."""
    try:
        for name in PROGRAMS:
            program(name)
    except MissingDatabaseError as error:
        return str(error)
    return ""


def _apt_get(*arguments: str) -> None:
    """Run a command; if it fails, the program that is missing afterwards shows it."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "-y", "-q", *arguments], check=False, env=environment)


if __name__ == "__main__":
    sys.exit(main())
