"""Errors of the use cases: one subclass for each code that callers see."""

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
    """An error with a `code` for callers to branch on and a message for people."""

    code: ClassVar[str]


class OperationConflictError(OperationsError):
    """The operationID was used before with another request."""

    code = "operation_conflict"


class OperationFinishedError(OperationsError):
    """The operationID was used before and its object was deleted; a replay creates nothing."""

    code = "operation_finished"


class NameTakenError(OperationsError):
    """Another operation's object has the name, or another unit declares the function."""

    code = "name_taken"


class InsufficientCapacityError(OperationsError):
    """A consistent read showed no ready stock of the specName."""

    code = "insufficient_capacity"


class SpecConflictError(OperationsError):
    """The specName currently has another envelope."""

    code = "spec_conflict"


class UnitNotFoundError(OperationsError):
    code = "gpuunit_not_found"


class PoolNotFoundError(OperationsError):
    code = "stockpool_not_found"


class JobNotFoundError(OperationsError):
    code = "job_not_found"


class WakeOffError(OperationsError):
    """Requests may not resume the unit: its `access.wake` is false."""

    code = "wake_off"


class StorageNotFoundError(OperationsError):
    code = "gpustorage_not_found"


class StorageInUseError(OperationsError):
    """A unit mounts the storage or waits to mount it, or another storage copies it."""

    code = "storage_in_use"


class SecretNotFoundError(OperationsError):
    code = "secret_not_found"


class TooManySecretsError(OperationsError):
    """The tenant has as many secrets as it may have."""

    code = "too_many_secrets"


class NothingToRecoverError(OperationsError):
    """The storage's prepare did not fail."""

    code = "nothing_to_recover"


class PreconditionFailedError(OperationsError):
    """The live object does not match the ETags that the caller sent."""

    code = "precondition_failed"


class RefusedError(OperationsError):
    """The cluster forbids the request, by a quota, an admission policy or a missing right."""

    code = "forbidden"


class BusyError(OperationsError):
    """The cluster asks the caller to retry later; it changed nothing."""

    code = "too_many_requests"

    def __init__(self, message: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class ClusterUnavailableError(OperationsError):
    """The cluster is unavailable; the request that failed changed nothing."""

    code = "service_unavailable"

    def __init__(self, message: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class UnknownOutcomeError(OperationsError):
    """The request may have taken effect; the same operationID can safely be sent again."""

    code = "timeout"


@asynccontextmanager
async def bounded(what: str, seconds: float) -> AsyncIterator[None]:
    """Bound the time of a whole use case, and translate errors of kube for its caller."""
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
    """Translate an error of kube for callers.

    Each use case handles a missing object itself, so a 404 here is a missing namespace or kind.
    """
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
