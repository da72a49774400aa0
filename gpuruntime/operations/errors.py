"""What a use case ends with instead of a result: a subclass for each code that callers see."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import ClassVar

from gpuruntime.errors import GpuRuntimeError
from gpuruntime.kube.errors import (
    ApiError,
    BadRequestError,
    ForbiddenError,
    InvalidError,
    KubeError,
    MalformedAnswerError,
    OutcomeUnknownError,
    ThrottledError,
)
from gpuruntime.strict.structure import Problem, StrictError


class OperationsError(GpuRuntimeError):
    """`code` is the word that callers branch on; the message is for people."""

    code: ClassVar[str]


class OperationConflictError(OperationsError):
    """The operationID is known, with another request."""

    code = "operation_conflict"


class OperationFinishedError(OperationsError):
    """The operationID is known and its object was deleted: a late replay creates nothing."""

    code = "operation_finished"


class NameTakenError(OperationsError):
    """Another operation's object has the name, or another function the requestID."""

    code = "name_taken"


class InsufficientCapacityError(OperationsError):
    """No ready stock of the specName is left, as of a consistent read."""

    code = "insufficient_capacity"


class SpecConflictError(OperationsError):
    """The specName has another envelope at present."""

    code = "spec_conflict"


class UnitNotFoundError(OperationsError):
    code = "gpuunit_not_found"


class PoolNotFoundError(OperationsError):
    code = "stockpool_not_found"


class JobNotFoundError(OperationsError):
    code = "job_not_found"


class StorageNotFoundError(OperationsError):
    code = "gpustorage_not_found"


class StorageInUseError(OperationsError):
    """A unit mounts the storage, or waits to."""

    code = "storage_in_use"


class NothingToRecoverError(OperationsError):
    """The storage's prepare did not fail."""

    code = "nothing_to_recover"


class PreconditionFailedError(OperationsError):
    """The object is no longer the one that the caller's ETag names."""

    code = "precondition_failed"


class RefusedError(OperationsError):
    """The cluster forbids it: a quota, an admission policy, a missing right."""

    code = "forbidden"


class BusyError(OperationsError):
    """The cluster asks to come back later; it changed nothing."""

    code = "too_many_requests"

    def __init__(self, message: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class ClusterUnavailableError(OperationsError):
    """The cluster cannot be asked now; nothing was changed by the request that failed."""

    code = "service_unavailable"

    def __init__(self, message: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class UnknownOutcomeError(OperationsError):
    """It may have happened: the same operationID can safely be sent again."""

    code = "timeout"


@asynccontextmanager
async def bounded(what: str, seconds: float) -> AsyncIterator[None]:
    """Around a whole use case: ends it in time, and tells what kube says as callers hear it."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise UnknownOutcomeError(
            f"{what} did not end within {seconds:g} s, what it did is not known: send it again"
        ) from error
    except KubeError as error:
        raise translated(error) from error


def translated(error: KubeError) -> OperationsError | StrictError:
    """A missing object is the use case's own matter: a 404 here is a namespace or a kind."""
    match error:
        case OutcomeUnknownError() | MalformedAnswerError():
            return UnknownOutcomeError(str(error))
        case ForbiddenError():
            return RefusedError(str(error))
        case InvalidError() | BadRequestError():
            return StrictError((Problem(field="", message=str(error)),))
        case ThrottledError():
            return BusyError(str(error), error.retry_after_seconds)
        case ApiError():
            return ClusterUnavailableError(str(error), error.retry_after_seconds)
        case _:
            return ClusterUnavailableError(str(error))
