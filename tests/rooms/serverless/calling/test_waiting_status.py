"""A queued invocation tells what it waits for, by the state of its function."""

from datetime import UTC, datetime

import attrs
import pytest

from gpuruntime.bus.messages import Record
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.functions import Serverless, ServerlessStatus
from gpuruntime.models.kinds.invocations import State, WaitingFor
from gpuruntime.models.kinds.units import GPUUnit, GPUUnitSpec, GPUUnitStatus
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.serverless.calling.waiting_status import NOT_SCALED, waiting_for

WHEN = datetime(2026, 1, 1, tzinfo=UTC)
QUEUED = Record(
    invocationID="one",
    serverlessRequestID="echo",
    state=State.QUEUED,
    acceptedAt=WHEN,
    deadlineAt=WHEN,
)
RETRIED = attrs.evolve(QUEUED, attempt=1, error="attempt 1: framework_timeout: no answer")


def unit(name: str, message: str, status: ServerlessStatus | None = None) -> GPUUnit:
    ready = Condition(type="Ready", status="False", reason="x", message=message)
    return GPUUnit(
        metadata=ObjectMeta(name=name),
        spec=GPUUnitSpec(specName="g1.1", serverless=Serverless(requestID="echo")),
        status=GPUUnitStatus(conditions=(ready,), serverless=status),
    )


def function(**status: object) -> GPUUnit:
    told = attrs.evolve(ServerlessStatus(desiredWorkers=1), **status)  # type: ignore[arg-type]  # of the test
    return unit("echo", "nats.url is empty", told)


def suspended(template: GPUUnit) -> GPUUnit:
    return attrs.evolve(template, spec=attrs.evolve(template.spec, suspended=True))


def draining(worker: GPUUnit) -> GPUUnit:
    marks = {labels.DRAINING: "then"}
    return attrs.evolve(worker, metadata=attrs.evolve(worker.metadata, annotations=marks))


LACK = {"reason": "insufficient_capacity", "message": "no ready stock of g1.1"}
FIRST = unit("echo-w-1", "pulling image v1 for 40 s")
SECOND = unit("echo-w-2", "the Pod is on its way")
ROWS: dict[str, tuple[Record, GPUUnit | None, tuple[GPUUnit, ...], str, str]] = {
    "no unit declares the function": (
        QUEUED,
        None,
        (),
        "no_worker_template",
        "no unit declares function echo",
    ),
    "the function is suspended": (
        QUEUED,
        suspended(function()),
        (),
        "suspended",
        "the function is suspended, and has no workers until it is resumed",
    ),
    "no activator runs": (QUEUED, unit("echo", ""), (), "not_scaled_yet", NOT_SCALED),
    "no stock": (QUEUED, function(**LACK), (), LACK["reason"], LACK["message"]),
    "a reason of the manager": (
        QUEUED,
        function(reason="queue_unknown"),
        (),
        "queue_unknown",
        "nats.url is empty",
    ),
    "no worker yet": (QUEUED, function(), (), "worker_starting", "a worker is being claimed"),
    "the first worker starts": (
        QUEUED,
        function(),
        (SECOND, FIRST),
        "worker_starting",
        "worker echo-w-1 starts: pulling image v1 for 40 s",
    ),
    "a draining worker is none": (
        QUEUED,
        function(),
        (draining(FIRST), SECOND),
        "worker_starting",
        "worker echo-w-2 starts: the Pod is on its way",
    ),
    "all workers are busy": (
        QUEUED,
        function(readyWorkers=1),
        (FIRST,),
        "workers_busy",
        "every ready worker is busy",
    ),
    "more workers are missing": (
        QUEUED,
        function(desiredWorkers=2, readyWorkers=1, **LACK),
        (FIRST,),
        "insufficient_capacity",
        "every ready worker is busy; no ready stock of g1.1",
    ),
    "an attempt has failed": (
        RETRIED,
        function(readyWorkers=1),
        (FIRST,),
        "next_attempt",
        RETRIED.error,
    ),
    "an attempt has failed and no worker is left": (
        RETRIED,
        function(**LACK),
        (),
        LACK["reason"],
        LACK["message"],
    ),
}


@pytest.mark.parametrize(
    ("record", "template", "workers", "reason", "message"), ROWS.values(), ids=ROWS
)
def test_a_queued_invocation_waits_for_what_its_function_lacks(
    record: Record,
    template: GPUUnit | None,
    workers: tuple[GPUUnit, ...],
    reason: str,
    message: str,
) -> None:
    expected = WaitingFor(reason=reason, message=message)
    assert waiting_for(record, template, workers) == expected


@pytest.mark.parametrize("state", [each for each in State if each is not State.QUEUED])
def test_an_invocation_that_is_not_queued_waits_for_nothing(state: State) -> None:
    assert waiting_for(attrs.evolve(QUEUED, state=state), None, ()) is None
