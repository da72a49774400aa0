"""Errors between a caller and the API; `certainty` says what a retry could do."""

from enum import StrEnum
from typing import ClassVar

from gpuruntime.errors import GpuRuntimeError
from gpuruntime.models.views.errors import ErrorDetail


class Certainty(StrEnum):
    # The server answered: the same request would get the same answer.
    ANSWERED = "answered"
    # Nothing was done, and the same request may succeed later.
    NOTHING_DONE = "nothing_done"
    # The request may have been done, or may yet be done.
    UNKNOWN = "unknown"


class ClientError(GpuRuntimeError):
    certainty: ClassVar[Certainty] = Certainty.ANSWERED
    # Seconds that the server asked the caller to wait, if it did.
    retry_after_seconds: float | None = None


class UnusableInputError(ClientError):
    """The caller's input cannot become a request; nothing was sent."""


class UnreachableServerError(ClientError):
    """The connection failed, so nothing was sent."""

    certainty = Certainty.NOTHING_DONE


class UntrustedServerError(ClientError):
    """The server's certificate is not trusted; nothing was sent."""


class LostAnswerError(ClientError):
    """The request was sent, at least in part, and no whole answer came."""

    certainty = Certainty.UNKNOWN


class UnreadableAnswerError(ClientError):
    """The answer is not one of this API: it is too large, of another type, or malformed."""


class GatewayError(ClientError):
    """A proxy answered for an API that it cannot reach."""

    certainty = Certainty.UNKNOWN


class UnreachableGatewayError(ClientError):
    """No connection to the gateway came about, so nothing was sent."""

    certainty = Certainty.NOTHING_DONE


class UnitRefusedError(ClientError):
    """The unit could not run the program, or nothing listens on its port."""


class CutOffError(ClientError):
    """The connection to a program or a port ended first; the program may run on."""

    certainty = Certainty.UNKNOWN


class ProblemError(ClientError):
    """The API refused the request: branch on `code`; `details` name each field at fault."""

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
    """The request has to change (400, 413, 415)."""


class AccessDeniedError(ProblemError):
    """The caller needs another token or another right (401, 403)."""


class NotFoundError(ProblemError):
    """The object does not exist (404)."""


class ConflictError(ProblemError):
    """The request conflicts with the present state of the object (409, a suspended unit)."""


class PreconditionError(ProblemError):
    """The object is no longer the version that the caller has read (412)."""


class BusyError(ProblemError):
    """The API cannot serve the request now; nothing was done (408, 429, 503)."""

    certainty = Certainty.NOTHING_DONE


class DeadlineError(ProblemError):
    """The API's deadline passed; the request may have been done (504)."""

    certainty = Certainty.UNKNOWN


class WaitError(ClientError):
    """The awaited state did not come."""


class FailedError(WaitError):
    """The awaited state will not come without a change; `reason` and `message` say why."""

    def __init__(self, what: str, *, reason: str, message: str) -> None:
        super().__init__(f"{what}: {reason}: {message}" if message else f"{what}: {reason}")
        self.reason = reason
        self.message = message


class NotYetError(WaitError):
    """The time to wait is over; the awaited state may still come."""


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


# Nothing wakes this unit, so that the same request would get the same answer.
_UNIT_SUSPENDED = "unit_suspended"


def problem_class(status: int, code: str = "") -> type[ProblemError]:
    return ConflictError if code == _UNIT_SUSPENDED else _BY_STATUS.get(status, ProblemError)
