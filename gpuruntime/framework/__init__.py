"""The Python side of a function: receive calls from the worker, and answer them."""

# Only this `__init__.py` and the one of `client` import: functions need no deeper path.

from gpuruntime.framework.calls import Answer, Call, CallError
from gpuruntime.framework.mounts import place_of
from gpuruntime.framework.server import Handler, serve, serving
from gpuruntime.models.kinds.functions import Framework
from gpuruntime.models.kinds.invocations import FunctionError

__all__ = [
    "Answer",
    "Call",
    "CallError",
    "Framework",
    "FunctionError",
    "Handler",
    "place_of",
    "serve",
    "serving",
]
