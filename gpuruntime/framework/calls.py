"""What a handler is given, and what it may give back."""

from typing import Annotated, Any

import attrs
import msgspec

from gpuruntime.errors import GpuRuntimeError


@attrs.frozen(kw_only=True, slots=True)
class Call:
    """One attempt of an invocation; members that a later worker adds are skipped.

    An attempt is started once. An invocation may be attempted again after one that was lost.
    """

    invocationID: str
    serverlessRequestID: str = ""
    workerName: str = ""
    workerNamespace: str = ""
    mode: str = "async"
    attempt: int = 1
    contentType: str = "application/json"
    headers: dict[str, str] = attrs.field(factory=dict)
    attributes: dict[str, str] = attrs.field(factory=dict)
    payload: Any = None
    timeoutSeconds: float = 0.0


@attrs.frozen(kw_only=True, slots=True)
class Answer:
    """For a handler that has more to say than a body, which is any JSON value."""

    statusCode: Annotated[int, msgspec.Meta(ge=100, le=599)] = 200
    contentType: str = "application/json"
    headers: dict[str, str] = attrs.field(factory=dict)
    body: Any = None
    error: str = ""


class CallError(GpuRuntimeError):
    """Raised by a handler to end the attempt with these words; it is tried again later."""
