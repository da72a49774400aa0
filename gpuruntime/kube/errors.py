"""What can go wrong between us and the API server: one subclass wherever some code handles it."""

import attrs

from gpuruntime.errors import GpuRuntimeError


class KubeError(GpuRuntimeError):
    """The base of this room's errors; the message names verb, resource and object."""


class UnreachableError(KubeError):
    """No connection: the request surely changed nothing."""


class SilentWatchError(UnreachableError):
    """A watch that stands and brings nothing, not even a bookmark."""


class OutcomeUnknownError(KubeError):
    """The answer was lost: a write may have happened, now or in the next moments."""


class MalformedAnswerError(KubeError):
    """Something answered, but not as an API server does: HTML, cut JSON, another kind.

    After a write it proves nothing: the write may have happened.
    """


class NotLeadingError(KubeError):
    """The fence is shut: the write was not sent, and this process may start none."""


class LeadershipLostError(KubeError):
    """Another may lead now: the role has to end."""


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
    """400 and every other refusal of the 4xx kind that has no class of its own."""


class UnauthorizedError(ApiError):
    """401, after the credentials were renewed once."""


class ForbiddenError(ApiError):
    """403: our account lacks the right; others of our requests may go on."""


class NotFoundError(ApiError):
    """404."""


class ConflictError(ApiError):
    """409 Conflict: our view was stale, or a guard (uid, resourceVersion) did not hold."""


class AlreadyExistsError(ApiError):
    """409 AlreadyExists: an object of this name is there."""


class ExpiredError(ApiError):
    """410: the version we continue from is compacted; only a new list helps."""


class InvalidError(ApiError):
    """422: the server's validation refuses the object."""


class ThrottledError(ApiError):
    """429: later, when retry_after_seconds says."""


class UnavailableError(ApiError):
    """5xx: the server is there and cannot.

    For a write only a refusal, the API server's own 503: others raise OutcomeUnknownError.
    """
