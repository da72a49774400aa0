"""The programs of this machine that run the images of dev's Pods, and its broker."""

import shutil
import sys
from pathlib import Path
from typing import Final

from gpuruntime.embedded.processes.programs import INTERPRETERS, Program, Programs
from gpuruntime.roles.options import sidecar_options_of
from gpuruntime.settings.schema import Settings

# The program that serves the files of storages; elsewhere their image does.
FILE_SERVER: Final = "dufs"
BROKER: Final = "nats-server"
# The worker beside a function runs from this installation.
OURSELVES: Final = Program(
    name="gpuruntime",
    path=sys.executable,
    arguments=("-m", "gpuruntime"),
    address_variable="GPURUNTIME_OPERATIONS_LISTEN",
)


def programs_at_hand(settings: Settings) -> Programs:
    """Return the programs found. A broker installed with us comes before one of the PATH."""
    beside = str(Path(sys.executable).parent)
    queue = shutil.which(BROKER, path=beside) or shutil.which(BROKER) or ""
    interpreter = Program(name=INTERPRETERS[0], path=sys.executable)
    return {
        settings.helpers.accessorImage: Program(
            name=FILE_SERVER, path=shutil.which(FILE_SERVER) or ""
        ),
        sidecar_options_of(settings).image: OURSELVES,
        BROKER: Program(name=BROKER, path=queue),
        **dict.fromkeys(INTERPRETERS, interpreter),
    }
