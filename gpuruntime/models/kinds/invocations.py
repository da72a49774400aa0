"""The modes, states and failures of invocations."""

from enum import StrEnum

import attrs


class Mode(StrEnum):
    ASYNC = "async"
    SYNC = "sync"


class State(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    DEAD_LETTERED = "dead_lettered"

    @property
    def is_terminal(self) -> bool:
        return self not in (State.QUEUED, State.RUNNING)


class FailureClass(StrEnum):
    MALFORMED_MESSAGE = "malformed_message"
    NO_WORKER_TEMPLATE = "no_worker_template"
    INSUFFICIENT_CAPACITY = "insufficient_capacity"
    ACTIVATION_TIMEOUT = "activation_timeout"
    FRAMEWORK_ERROR = "framework_error"
    FRAMEWORK_TIMEOUT = "framework_timeout"
    WORKER_LOST = "worker_lost"
    RETRY_EXHAUSTED = "retry_exhausted"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


@attrs.frozen(kw_only=True, slots=True)
class WaitingFor:
    """Why a queued invocation has no worker yet; `reason` is for programs."""

    reason: str
    message: str


@attrs.frozen(kw_only=True, slots=True)
class FunctionError:
    """FunctionError is what a function raised, or reported as its error in another way."""

    type: str = ""
    message: str = ""
    traceback: str = ""
