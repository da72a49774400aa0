"""What goes wrong between a caller and the API; `certainty` says what a repetition could do."""

from enum import StrEnum
from typing import ClassVar

from gpuruntime.errors import GpuRuntimeError
from gpuruntime.models.views.errors import ErrorDetail


class Certainty(StrEnum):
    # It was answered: the same again would be answered the same.
    ANSWERED = "answered"
    # Nothing was done, and the same may be done later.
    NOTHING_DONE = "nothing_done"
    # It may have been done, or be done yet.
    UNKNOWN = "unknown"


class ClientError(GpuRuntimeError):
    certainty: ClassVar[Certainty] = Certainty.ANSWERED
    # What the server asked to wait, where it did.
    retry_after_seconds: float | None = None


class UnusableInputError(ClientError):
    """The caller's own words: no request can be made of them, and none was."""


class UnreachableServerError(ClientError):
    """No connection, so nothing was sent."""

    certainty = Certainty.NOTHING_DONE


class UntrustedServerError(ClientError):
    """Somebody is there whose certificate does not count; nothing was sent."""


class LostAnswerError(ClientError):
    """It was sent, or a part of it, and no answer came."""

    certainty = Certainty.UNKNOWN


class UnreadableAnswerError(ClientError):
    """What came is no answer of this API: too large, of another type, or not what was promised."""


class GatewayError(ClientError):
    """Something in between answers for the API that it cannot reach."""

    certainty = Certainty.UNKNOWN


class ProblemError(ClientError):
    """The API says no: `code` is what to branch on, `details` name each field at fault."""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str,
        details: tuple[ErrorDetail, ...] = (),
        request_id: str = "",
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(f"{message} ({code}, {status})")
        self.message = message
        self.status = status
        self.code = code
        self.details = details
        self.request_id = request_id
        self.retry_after_seconds = retry_after_seconds


class InvalidRequestError(ProblemError):
    """400, 413, 415: the request has to change."""


class AccessDeniedError(ProblemError):
    """401, 403: another token, or another right."""


class NotFoundError(ProblemError):
    """404."""


class ConflictError(ProblemError):
    """409: as things stand now it cannot be done."""


class PreconditionError(ProblemError):
    """412: it is not any more what the caller has seen."""


class BusyError(ProblemError):
    """408, 429, 503: not now; nothing was done."""

    certainty = Certainty.NOTHING_DONE


class DeadlineError(ProblemError):
    """504: whether it was done is not known."""

    certainty = Certainty.UNKNOWN


class WaitError(ClientError):
    """What was waited for did not come."""


class FailedError(WaitError):
    """And will not, until somebody changes something: `reason` and `message` say what."""

    def __init__(self, what: str, *, reason: str, message: str) -> None:
        super().__init__(f"{what}: {reason}: {message}" if message else f"{what}: {reason}")
        self.reason = reason
        self.message = message


class NotYetError(WaitError):
    """The time is over; it may come yet."""


_BY_STATUS: dict[int, type[ProblemError]] = {
    400: InvalidRequestError,
    401: AccessDeniedError,
    403: AccessDeniedError,
    404: NotFoundError,
    408: BusyError,
    409: ConflictError,
    412: PreconditionError,
    413: InvalidRequestError,
    415: InvalidRequestError,
    429: BusyError,
    503: BusyError,
    504: DeadlineError,
}


def problem_class(status: int) -> type[ProblemError]:
    return _BY_STATUS.get(status, ProblemError)
