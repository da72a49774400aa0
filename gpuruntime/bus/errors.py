"""What can go wrong between us and the broker: one subclass wherever some code handles it."""

import attrs

from gpuruntime.errors import GpuRuntimeError


class BusError(GpuRuntimeError):
    """The base of this room's errors."""


class BadNameError(BusError):
    """A name that would leave its place in a subject; nothing was sent."""


class MalformedMessageError(BusError):
    """These bytes are none of our messages, or speak of another function."""


class UnavailableError(BusError):
    """No connection, or nobody there who answers: nothing was stored."""


class OutcomeUnknownError(BusError):
    """The answer was lost: the broker may have stored it."""


class TooLargeError(BusError):
    """More bytes than the broker takes in one message."""


class UnfitError(BusError):
    """A stream or consumer is there with settings that this product cannot work with."""


@attrs.define(slots=False, eq=False)
class RefusedError(BusError):
    """JetStream answered with a failure; `code` is its own number of it."""

    message: str
    code: int = 0

    def __attrs_post_init__(self) -> None:
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message


class MissingError(RefusedError):
    """There is no such stream, consumer or message."""


class FullError(RefusedError):
    """The stream has reached a limit that its operator set; nothing was dropped."""


@attrs.define(slots=False, eq=False)
class WrongSequenceError(RefusedError):
    """Another write came first; the subject's last sequence is 0 where it is empty."""

    last_sequence: int | None = None
