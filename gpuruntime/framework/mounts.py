"""Paths of mounts for a container that runs as a process of some machine.

In a Pod every path is as the Pod's spec says. `gpuruntime dev` runs containers as plain processes,
which see the machine's own files. It names the folders of their mounts in a variable.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

# The variable holds a JSON object from mount paths to folders.
MOUNTS: Final = "GPURUNTIME_MOUNTS"


def place_of(path: str, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the path, or its place in another folder if it is below a relocated mount."""
    for mount, folder in json.loads(environment.get(MOUNTS, "{}")).items():
        if path.startswith(f"{mount}/"):
            return Path(folder, path.removeprefix(f"{mount}/"))
    return Path(path)
