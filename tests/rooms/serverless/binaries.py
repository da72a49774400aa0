"""Whether PostgreSQL is at hand for the suites; where the machine lets us, it is installed."""

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
    """Words about the first program that is not there; none where all are."""
    try:
        for name in PROGRAMS:
            program(name)
    except MissingDatabaseError as error:
        return str(error)
    return ""


def _apt_get(*arguments: str) -> None:
    """One that fails is seen by what is missing after it."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "-y", "-q", *arguments], check=False, env=environment)


if __name__ == "__main__":
    sys.exit(main())
