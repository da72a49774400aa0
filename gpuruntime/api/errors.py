"""Refusals of this room, before a use case is called; each has the code that callers see."""

from typing import ClassVar

from gpuruntime.errors import GpuRuntimeError


class RequestError(GpuRuntimeError):
    """A refusal: programs branch on `code`, and the message is for people."""

    code: ClassVar[str]


class UnknownPathError(RequestError):
    """Nothing is served at the path, or its content does not exist yet."""

    code = "not_found"


class MalformedRequestError(RequestError):
    """The bytes are not an HTTP request."""

    code = "invalid_request"


class HeadTooLargeError(RequestError):
    code = "head_too_large"


class UnauthenticatedError(RequestError):
    """The caller sent no token, or (`is_given`) one that is not valid."""

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
    """The caller did not send the announced body in time."""

    code = "body_timeout"


class UnsupportedMediaTypeError(RequestError):
    code = "unsupported_media_type"


class NotServingError(RequestError):
    """The cluster is off or away, the caches are not synced, or this process is stopping."""

    code = "service_unavailable"


class DeadlineError(RequestError):
    """The time of a request is over; its outcome is unknown."""

    code = "timeout"


class AccessorOffError(RequestError):
    """The storage serves no files, because its accessor is not enabled."""

    code = "accessor_off"


class GatewayOffError(RequestError):
    """No gateway is configured, or there are no keys for its tickets."""

    code = "gateway_off"


class PortUnknownError(RequestError):
    """The unit does not declare the port, and nothing else reaches it."""

    code = "port_unknown"


class ExecOffError(RequestError):
    """The gateway may not run programs in units."""

    code = "exec_off"


class UpstreamFaultError(RequestError):
    """A storage's file server cannot be reached, or its answer is not valid."""

    code = "upstream_fault"


class OverdrawnError(RequestError):
    """The caller has used up its share of requests."""

    code = "too_many_requests"

    def __init__(self, message: str, *, retry_after_seconds: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class CrowdedError(RequestError):
    """The process serves as many at once as it can."""

    code = "too_many_requests"
