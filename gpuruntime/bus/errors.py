"""Errors of the bus, with a subclass for each case that some code handles."""

import attrs

from gpuruntime.errors import GpuRuntimeError


class BusError(GpuRuntimeError):
    """The base of this room's errors."""


class BadNameError(BusError):
    """The name is not valid as one token of a subject; nothing was sent."""


class MalformedMessageError(BusError):
    """The bytes are not a message of ours, or name another function."""


class UnavailableError(BusError):
    """There is no connection or no responder: nothing was stored."""


class OutcomeUnknownError(BusError):
    """The answer was lost: the broker may have stored the message."""


class TooLargeError(BusError):
    """The message is larger than the broker accepts."""


class UnfitError(BusError):
    """A stream or consumer exists with settings that this product cannot work with."""


@attrs.define(slots=False, eq=False)
class RefusedError(BusError):
    """JetStream answered with an error; `code` is its error code."""

    message: str
    code: int = 0

    def __attrs_post_init__(self) -> None:
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message


class MissingError(RefusedError):
    """The stream, consumer or message does not exist."""


class FullError(RefusedError):
    """The stream has reached a limit that its operator set; nothing was dropped."""


@attrs.define(slots=False, eq=False)
class WrongSequenceError(RefusedError):
    """Another write came first. `last_sequence` is 0 if the subject is empty."""

    last_sequence: int | None = None
