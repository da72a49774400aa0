"""Views of invocations, functions and dead letters, made from their records."""

import attrs

from gpuruntime.bus.messages import DeadLetter, Record
from gpuruntime.bus.names import Names
from gpuruntime.models.kinds.functions import ServerlessStatus
from gpuruntime.models.kinds.invocations import FunctionError, State
from gpuruntime.models.views.serverless import (
    AcceptedView,
    DeadLetterView,
    FunctionView,
    InvocationSummary,
    InvocationView,
    WorkersView,
)
from gpuruntime.serverless.calling.acceptance import Accepted
from gpuruntime.serverless.calling.functions import Function
from gpuruntime.serverless.calling.invocations import Outcome


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
        position=outcome.position,
        waitingFor=outcome.waiting_for,
        series=record.series,
        attempt=record.attempt,
        workerName=record.workerName,
        statusCode=record.statusCode,
        contentType=record.contentType,
        headers=record.headers,
        body=outcome.body,
        error=_error_of(record),
        failureClass=record.failureClass,
        acceptedAt=record.acceptedAt,
        deadlineAt=record.deadlineAt,
        startedAt=record.startedAt,
        completedAt=record.completedAt,
    )


def invocation_summary(record: Record) -> InvocationSummary:
    error = _error_of(record)
    return InvocationSummary(
        invocationID=record.invocationID,
        serverlessRequestID=record.serverlessRequestID,
        mode=record.mode,
        state=record.state,
        attempt=record.attempt,
        workerName=record.workerName,
        statusCode=record.statusCode,
        error=error.message if error else "",
        failureClass=record.failureClass,
        acceptedAt=record.acceptedAt,
        startedAt=record.startedAt,
        completedAt=record.completedAt,
    )


def _error_of(record: Record) -> FunctionError | None:
    """Return the error of the last attempt, or None.

    The function's own message is shown as it is. An invocation that expired says that instead.
    """
    if not record.error:
        return None
    raised = record.raised or FunctionError()
    is_shown = bool(raised.message) and record.state is not State.EXPIRED
    return attrs.evolve(raised, message=raised.message if is_shown else record.error)


def function_view(function: Function) -> FunctionView:
    declared, unit = function.declared, function.unit
    status = unit.status.serverless or ServerlessStatus()
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
            desired=status.desiredWorkers,
            ready=status.readyWorkers,
            busy=status.busyWorkers,
            draining=status.drainingWorkers,
            outdated=status.outdatedWorkers,
        ),
        reason=status.reason,
        message=status.message,
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
