"""The programs of this machine that run dev's Pods, and its broker."""

import os
import shutil
import sys
from pathlib import Path
from typing import Final

from gpuruntime.embedded.processes.programs import (
    INTERPRETERS,
    CommandRules,
    Program,
    Programs,
)
from gpuruntime.models.kinds.labels import UNIT
from gpuruntime.roles.options import sidecar_options_of
from gpuruntime.settings.dev import DevRun
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
    """Return the programs found. A broker installed with us comes before one of the PATH.

    Python is the interpreter that runs us: functions import our framework.
    """
    beside = str(Path(sys.executable).parent)
    queue = shutil.which(BROKER, path=beside) or shutil.which(BROKER) or ""
    interpreter = Program(name=INTERPRETERS[0], path=sys.executable)
    return {
        **{each: _found(each) for each in _names_of(settings)},
        settings.helpers.accessorImage: _found(FILE_SERVER),
        sidecar_options_of(settings).image: OURSELVES,
        BROKER: Program(name=BROKER, path=queue),
        **dict.fromkeys(INTERPRETERS, interpreter),
    }


def command_rules(settings: Settings) -> CommandRules:
    """Return which units run by their command; `python` is the same program in their scripts."""
    beside = str(Path(sys.executable).parent)
    return CommandRules(
        namespace=settings.namespaces.instance,
        label=UNIT,
        names=_names_of(settings),
        search_path=os.pathsep.join([beside, *os.get_exec_path()]),
    )


def _names_of(settings: Settings) -> tuple[str, ...]:
    return settings.dev.programs if settings.dev.run is DevRun.AUTO else ()


def _found(name: str) -> Program:
    return Program(name=name, path=shutil.which(name) or "")
