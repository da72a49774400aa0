"""The streams of a command in a container, as Kubernetes sends them over one WebSocket (v5)."""

from enum import IntEnum
from typing import Final

import attrs

# Earlier versions cannot end the input.
PROTOCOL: Final = "v5.channel.k8s.io"
PIECE_BYTES: Final = 32 * 1024
# A server need not close the WebSocket after the exit status.
LAST_OUTPUT_SECONDS: Final = 5.0
EXIT_CODE: Final = "ExitCode"


class Channel(IntEnum):
    """The first byte of every message."""

    STDIN = 0
    STDOUT = 1
    STDERR = 2
    STATUS = 3
    RESIZE = 4
    CLOSE = 255


@attrs.frozen(kw_only=True, slots=True)
class Output:
    data: bytes
    is_error: bool = False


@attrs.frozen(kw_only=True, slots=True)
class Cause:
    reason: str = ""
    message: str = ""


@attrs.frozen(kw_only=True, slots=True)
class Details:
    causes: tuple[Cause, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class Ending:
    """The Status with which the server ends a command."""

    status: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""
    details: Details = Details()

    @property
    def exit_code(self) -> int | None:
        """Return the exit code, or None if the command could not be run."""
        if self.status == "Success":
            return 0
        for cause in self.details.causes:
            if cause.reason == EXIT_CODE and cause.message.isdecimal():
                return int(cause.message[:9])
        return None
