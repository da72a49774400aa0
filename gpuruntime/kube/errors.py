"""Failures between this process and the API server: a class for each that some code handles."""

import attrs

from gpuruntime.errors import GpuRuntimeError


class KubeError(GpuRuntimeError):
    """The base of this room's errors. The message names verb, resource and object."""


class UnreachableError(KubeError):
    """There was no connection: the request certainly changed nothing."""


class SilentWatchError(UnreachableError):
    """A watch is connected but brings nothing, not even a bookmark."""


class OutcomeUnknownError(KubeError):
    """The answer was lost: a write may have happened, or may still happen in the next moments."""


class MalformedAnswerError(KubeError):
    """The answer is not one of an API server: HTML, truncated JSON, or another kind.

    After a write it proves nothing: the write may have happened.
    """


class NotLeadingError(KubeError):
    """The fence is shut: the write was not sent, and this process may start no other."""


class LeadershipLostError(KubeError):
    """Another process may lead now: the role has to end."""


@attrs.define(slots=False, eq=False)
class ApiError(KubeError):
    """The API server answered with a failure."""

    message: str
    status: int = 0
    reason: str = ""
    retry_after_seconds: float | None = None

    def __attrs_post_init__(self) -> None:
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message


class BadRequestError(ApiError):
    """400, and every other 4xx status without a class of its own."""


class UnauthorizedError(ApiError):
    """401, although the credentials were renewed once."""


class ForbiddenError(ApiError):
    """403: our account lacks this right; other requests may still succeed."""


class NotFoundError(ApiError):
    """404."""


class ConflictError(ApiError):
    """409 Conflict: our view was stale, or a guard (uid, resourceVersion) did not hold."""


class AlreadyExistsError(ApiError):
    """409 AlreadyExists: an object of this name exists."""


class ExpiredError(ApiError):
    """410: the version to continue from is compacted; only a new list helps."""


class InvalidError(ApiError):
    """422: the server's validation rejects the object."""


class ThrottledError(ApiError):
    """429: retry after retry_after_seconds."""


class UnavailableError(ApiError):
    """5xx: the server is reachable but cannot serve the request.

    For a write it is only the API server's own 503, a refusal. Others raise OutcomeUnknownError.
    """
