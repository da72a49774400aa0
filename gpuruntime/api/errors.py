"""What this room refuses before a use case is asked; each has the code that callers see."""

from typing import ClassVar

from gpuruntime.errors import GpuRuntimeError


class RequestError(GpuRuntimeError):
    """`code` is the word that callers branch on; the message is for people."""

    code: ClassVar[str]


class UnknownPathError(RequestError):
    """Nothing is served there, or nothing is there yet."""

    code = "not_found"


class MalformedRequestError(RequestError):
    """There is no request to speak of."""

    code = "invalid_request"


class UnauthenticatedError(RequestError):
    """Nobody knows who calls; a token that was given is not one that counts."""

    code = "unauthenticated"

    def __init__(self, message: str, *, is_given: bool = False) -> None:
        super().__init__(message)
        self.is_given = is_given


class DeniedError(RequestError):
    """The caller is known, and may not do this."""

    code = "forbidden"


class MethodNotAllowedError(RequestError):
    code = "method_not_allowed"

    def __init__(self, method: str, allowed: tuple[str, ...]) -> None:
        super().__init__(f"{method} is not served here: use {', '.join(allowed)}")
        self.allowed = allowed


class BodyTooLargeError(RequestError):
    code = "body_too_large"


class SlowBodyError(RequestError):
    """The caller did not send what it said that it would, in time."""

    code = "body_timeout"


class UnsupportedMediaTypeError(RequestError):
    code = "unsupported_media_type"


class NotServingError(RequestError):
    """The cluster is off or away, the caches are not synced, or this process is stopping."""

    code = "service_unavailable"


class DeadlineError(RequestError):
    """The time of a request is over; what it did is not known."""

    code = "timeout"


class AccessorOffError(RequestError):
    """The storage serves no files, because nobody asked for it."""

    code = "accessor_off"


class UpstreamFaultError(RequestError):
    """A storage's file server is not there, or answers what is no answer."""

    code = "upstream_fault"


class OverdrawnError(RequestError):
    """One caller asks for more than its share."""

    code = "too_many_requests"

    def __init__(self, message: str, *, retry_after_seconds: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class CrowdedError(RequestError):
    """As many are served at once as this process can."""

    code = "too_many_requests"
