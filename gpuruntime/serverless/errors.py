"""What a use case of this room ends with instead of a result: a subclass for each answer."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from gpuruntime.bus.errors import BusError, OutcomeUnknownError, TooLargeError
from gpuruntime.errors import GpuRuntimeError
from gpuruntime.serverless.results.store import ResultStoreError


class ServerlessError(GpuRuntimeError):
    """`code` is the word that callers branch on; the message is for people."""

    code: ClassVar[str]


class FunctionNotFoundError(ServerlessError):
    """No unit declares the function."""

    code = "function_not_found"


class InvocationNotFoundError(ServerlessError):
    """It never was, or it ended so long ago that its record is gone."""

    code = "invocation_not_found"


class DeadLetterNotFoundError(ServerlessError):
    code = "dead_letter_not_found"


class InvocationConflictError(ServerlessError):
    """The function knows the invocationID, and not with this request or at this point."""

    code = "operation_conflict"


class AlreadyFinishedError(ServerlessError):
    """There is nothing left to cancel."""

    code = "already_finished"


class PayloadTooLargeError(ServerlessError):
    code = "body_too_large"


class QueueFullError(ServerlessError):
    """The queue takes no more for now, and nothing is kept of the invocation that met this."""

    code = "queue_full"
    retry_after_seconds = 5.0


class QueueAwayError(ServerlessError):
    """The queue or the store behind it cannot be asked now: nothing was changed."""

    code = "service_unavailable"


class UnknownOutcomeError(ServerlessError):
    """It may have happened, or is yet to end: the same request can safely be sent again."""

    code = "timeout"


@contextmanager
def bus_translated() -> Iterator[None]:
    """Around a whole use case: tells what the bus and the store of results say as callers hear."""
    try:
        yield
    except OutcomeUnknownError as error:
        raise UnknownOutcomeError(
            f"{error}: what happened is not known, send the same request again"
        ) from error
    except TooLargeError as error:
        raise PayloadTooLargeError(str(error)) from error
    except (BusError, ResultStoreError) as error:
        raise QueueAwayError(f"the queue cannot be used now: {error}") from error
