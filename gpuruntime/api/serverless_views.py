"""What callers see of invocations, functions and dead letters."""

from datetime import datetime
from typing import Any

import attrs

from gpuruntime.bus.messages import DeadLetter, FailureClass, Mode, State
from gpuruntime.bus.names import Names
from gpuruntime.serverless.acceptance import Accepted
from gpuruntime.serverless.functions import Function
from gpuruntime.serverless.invocations import Outcome


@attrs.frozen(kw_only=True, slots=False)
class AcceptedView:
    """An invocation that is known and has a record, and where its message is."""

    invocationID: str
    serverlessRequestID: str
    mode: Mode
    subject: str
    stream: str
    sequence: int
    duplicate: bool
    acceptedAt: datetime


@attrs.frozen(kw_only=True, slots=False)
class InvocationView:
    """An invocation as it stands; once it has ended, with what the function answered."""

    invocationID: str
    serverlessRequestID: str
    mode: Mode
    state: State
    series: int
    attempt: int
    workerName: str
    statusCode: int | None
    contentType: str
    headers: dict[str, str]
    body: Any
    error: str
    failureClass: FailureClass | None
    acceptedAt: datetime
    deadlineAt: datetime
    startedAt: datetime | None
    completedAt: datetime | None


@attrs.frozen(kw_only=True, slots=False)
class WorkersView:
    desired: int
    ready: int
    busy: int
    draining: int


@attrs.frozen(kw_only=True, slots=False)
class FunctionView:
    """A function with its work as the queue has it, and its workers as last written down."""

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


@attrs.frozen(kw_only=True, slots=False)
class DeadLetterView:
    """An invocation that has run out of attempts, or a message that was none."""

    deadLetterID: str
    serverlessRequestID: str
    invocationID: str
    series: int
    attempt: int
    failureClass: FailureClass
    error: str
    deadAt: datetime


def accepted_view(accepted: Accepted, names: Names) -> AcceptedView:
    record = accepted.record
    return AcceptedView(
        invocationID=record.invocationID,
        serverlessRequestID=record.serverlessRequestID,
        mode=record.mode,
        subject=names.invoke(record.serverlessRequestID),
        stream=names.invocations,
        sequence=accepted.sequence,
        duplicate=accepted.is_duplicate,
        acceptedAt=record.acceptedAt,
    )


def invocation_view(outcome: Outcome) -> InvocationView:
    record = outcome.record
    return InvocationView(
        invocationID=record.invocationID,
        serverlessRequestID=record.serverlessRequestID,
        mode=record.mode,
        state=record.state,
        series=record.series,
        attempt=record.attempt,
        workerName=record.workerName,
        statusCode=record.statusCode,
        contentType=record.contentType,
        headers=record.headers,
        body=outcome.body,
        error=record.error,
        failureClass=record.failureClass,
        acceptedAt=record.acceptedAt,
        deadlineAt=record.deadlineAt,
        startedAt=record.startedAt,
        completedAt=record.completedAt,
    )


def function_view(function: Function) -> FunctionView:
    declared, unit, workers = function.declared, function.unit, function.workers
    status = unit.status.serverless
    return FunctionView(
        serverlessRequestID=declared.requestID,
        unitName=unit.metadata.name,
        namespace=unit.metadata.namespace,
        suspended=unit.spec.suspended,
        minAvailableCount=declared.minAvailableCount,
        maxWorkers=declared.maxWorkers,
        concurrency=declared.concurrency,
        timeoutSeconds=declared.timeoutSeconds,
        queueDepth=function.queued,
        running=function.running,
        oldestWaitSeconds=function.oldest_wait_seconds,
        workers=WorkersView(
            desired=workers.desired,
            ready=workers.ready,
            busy=workers.busy,
            draining=workers.draining,
        ),
        reason=status.reason if status else "",
    )


def dead_letter_view(letter: DeadLetter) -> DeadLetterView:
    return DeadLetterView(
        deadLetterID=letter.deadLetterID,
        serverlessRequestID=letter.serverlessRequestID,
        invocationID=letter.invocationID,
        series=letter.series,
        attempt=letter.attempt,
        failureClass=letter.failureClass,
        error=letter.error,
        deadAt=letter.deadAt,
    )
