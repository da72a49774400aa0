"""Configuration of `gpuruntime dev`: which commands of units run on this machine."""

import re
from enum import StrEnum
from typing import Final

import attrs

from gpuruntime.strict.structure import FieldError, raise_all

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


class DevRun(StrEnum):
    """`auto` runs the commands of units that begin with a program; `simulated` runs none."""

    AUTO = "auto"
    SIMULATED = "simulated"


@attrs.frozen(kw_only=True, slots=True)
class DevSettings:
    run: DevRun = DevRun.AUTO
    programs: tuple[str, ...] = ("python", "python3", "node", "bash", "sh")

    def __attrs_post_init__(self) -> None:
        raise_all(
            [
                FieldError(f"programs[{index}]", f"{name!r} is no name of a program, such as node")
                for index, name in enumerate(self.programs)
                if not _NAME.fullmatch(name)
            ]
        )
