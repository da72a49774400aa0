"""Calls that a handler receives, and the answers that it returns."""

from typing import Annotated, Any

import attrs
import msgspec

from gpuruntime.errors import GpuRuntimeError
from gpuruntime.models.kinds.invocations import FunctionError


@attrs.frozen(kw_only=True, slots=True)
class Call:
    """An attempt of an invocation; members that a later worker adds are skipped.

    An attempt starts once. After a lost attempt the invocation may be attempted again.
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
    """An answer of a handler that returns more than a body, which is any JSON value.

    An attempt with an `error` fails. The error is a text, or a type, a message and a traceback.
    """

    statusCode: Annotated[int, msgspec.Meta(ge=100, le=599)] = 200
    contentType: str = "application/json"
    headers: dict[str, str] = attrs.field(factory=dict)
    body: Any = None
    error: str | FunctionError = ""


class CallError(GpuRuntimeError):
    """A handler raises this to fail the attempt with this message; it is retried later."""
