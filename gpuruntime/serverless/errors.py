"""Errors of this room's use cases, with a subclass for each answer to callers."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from gpuruntime.bus.errors import BusError, OutcomeUnknownError, TooLargeError
from gpuruntime.errors import GpuRuntimeError
from gpuruntime.serverless.results.store import ResultStoreError


class ServerlessError(GpuRuntimeError):
    """Callers branch on `code`; the message is for people."""

    code: ClassVar[str]


class FunctionNotFoundError(ServerlessError):
    """No unit declares the function."""

    code = "function_not_found"


class InvocationNotFoundError(ServerlessError):
    """The invocation never existed, or its record has expired."""

    code = "invocation_not_found"


class DeadLetterNotFoundError(ServerlessError):
    code = "dead_letter_not_found"


class InvocationConflictError(ServerlessError):
    """The invocationID exists with another request, or in a state that forbids the change."""

    code = "operation_conflict"


class AlreadyFinishedError(ServerlessError):
    """The invocation has already ended and cannot be cancelled."""

    code = "already_finished"


class PayloadTooLargeError(ServerlessError):
    code = "body_too_large"


class QueueFullError(ServerlessError):
    """The queue is full for now; nothing of the rejected invocation is kept."""

    code = "queue_full"
    retry_after_seconds = 5.0


class QueueAwayError(ServerlessError):
    """The queue or the result store is unreachable: nothing was changed."""

    code = "service_unavailable"


class UnknownOutcomeError(ServerlessError):
    """The change may have happened or may still: the same request can safely be repeated."""

    code = "timeout"


@contextmanager
def bus_translated() -> Iterator[None]:
    """Translate errors of the bus and of the result store into the errors for callers."""
    try:
        yield
    except OutcomeUnknownError as error:
        raise UnknownOutcomeError(
            f"{error}: the outcome is unknown: send the same request again"
        ) from error
    except TooLargeError as error:
        raise PayloadTooLargeError(str(error)) from error
    except (BusError, ResultStoreError) as error:
        raise QueueAwayError(f"the queue cannot be used now: {error}") from error
