"""Where the mounts of a container are, for a container that is a process of some machine.

In a Pod every path is as the Pod says. `gpuruntime dev` runs containers as plain processes, which
see the machine as it is, and tells them in a variable where it has put their mounts.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

# A JSON object from mount paths to folders.
MOUNTS: Final = "GPURUNTIME_MOUNTS"


def place_of(path: str, environment: Mapping[str, str] = os.environ) -> Path:
    """The path itself, unless it is below a mount that is elsewhere."""
    for mount, folder in json.loads(environment.get(MOUNTS, "{}")).items():
        if path.startswith(f"{mount}/"):
            return Path(folder, path.removeprefix(f"{mount}/"))
    return Path(path)
