"""Invocations, functions and dead letters as callers see them."""

from datetime import datetime
from typing import Annotated, Any, TypeAlias

import attrs

from gpuruntime.models.definitions.schemas import Schema
from gpuruntime.models.kinds.invocations import (
    FailureClass,
    FunctionError,
    Mode,
    State,
    WaitingFor,
)

ModeText: TypeAlias = Annotated[str, Schema(enum=tuple(Mode))]
StateText: TypeAlias = Annotated[str, Schema(enum=tuple(State))]
FailureText: TypeAlias = Annotated[str, Schema(enum=tuple(FailureClass))]


@attrs.frozen(kw_only=True, slots=False)
class AcceptedView:
    """An invocation that has a record, and the place of its message."""

    invocationID: str
    serverlessRequestID: str
    mode: ModeText
    subject: str
    stream: str
    sequence: int
    duplicate: bool
    acceptedAt: datetime


@attrs.frozen(kw_only=True, slots=False)
class InvocationView:
    """An invocation as it is now; once it has ended, with the function's answer.

    `error` says why the last attempt failed, in the function's own words if it reported any. A
    queued invocation has in `waitingFor` why no worker has it. Its `position` in the function's
    queue begins with 1, and is null while the broker cannot tell it.
    """

    invocationID: str
    serverlessRequestID: str
    mode: ModeText
    state: StateText
    position: int | None
    waitingFor: WaitingFor | None
    series: int
    attempt: int
    workerName: str
    statusCode: int | None
    contentType: str
    headers: dict[str, str]
    body: Any
    error: FunctionError | None
    failureClass: FailureText | None
    acceptedAt: datetime
    deadlineAt: datetime
    startedAt: datetime | None
    completedAt: datetime | None


@attrs.frozen(kw_only=True, slots=False)
class InvocationSummary:
    """An invocation in a list: all but the function's answer, which is read by its id."""

    invocationID: str
    serverlessRequestID: str
    mode: ModeText
    state: StateText
    attempt: int
    workerName: str
    statusCode: int | None
    error: str
    failureClass: FailureText | None
    acceptedAt: datetime
    startedAt: datetime | None
    completedAt: datetime | None


@attrs.frozen(kw_only=True, slots=False)
class WorkersView:
    desired: int
    ready: int
    busy: int
    draining: int
    outdated: int


@attrs.frozen(kw_only=True, slots=False)
class FunctionView:
    """A function: its work as the queue has it, its workers as the activator last wrote them."""

    serverlessRequestID: str
    unitName: str
    namespace: str
    suspended: bool
    minAvailableCount: int
    maxWorkers: int
    concurrency: int
    timeoutSeconds: int
    queueDepth: int
    running: int
    oldestWaitSeconds: float
    workers: WorkersView
    reason: str
    message: str


@attrs.frozen(kw_only=True, slots=False)
class DeadLetterView:
    """An invocation that has used up its attempts, or a message that is not one."""

    deadLetterID: str
    serverlessRequestID: str
    invocationID: str
    series: int
    attempt: int
    failureClass: FailureText
    error: str
    deadAt: datetime
