"""Whether PostgreSQL is at hand for the suites; where the machine lets us, it is installed."""

import os
import shutil
import subprocess
import sys
from contextlib import suppress

from tests.serverless.database import MissingDatabaseError, program

PROGRAMS = ("initdb", "postgres", "pg_isready")


def main() -> int:
    with suppress(MissingDatabaseError):
        return _look()
    if os.geteuid() == 0 and (apt := shutil.which("apt-get")):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        argv = [apt, "install", "-y", "-q", "--no-install-recommends", "postgresql"]
        subprocess.run(argv, check=False, env=environment)
    try:
        return _look()
    except MissingDatabaseError as error:
        print(error, file=sys.stderr)
        return 1


def _look() -> int:
    for name in PROGRAMS:
        program(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
