import pytest

from gpuruntime.api.views.serverless import invocation_view
from gpuruntime.bus.messages import NULL, Record
from gpuruntime.models.kinds.invocations import FunctionError, State
from gpuruntime.serverless.calling.invocations import Outcome
from tests.rooms.worker.invocations import record

RAISED = FunctionError(type="KeyError", message="'name'", traceback="Traceback…")


@pytest.mark.parametrize(
    ("shown", "error"),
    [
        (record(State.SUCCEEDED), None),
        (record(State.FAILED, error="gone"), FunctionError(message="gone")),
        (record(State.QUEUED, error="attempt 1: framework_error: 'name'", raised=RAISED), RAISED),
        (record(State.DEAD_LETTERED, error="attempt 5: 'name'", raised=RAISED), RAISED),
        (
            record(State.EXPIRED, error="no time for another attempt: 'name'", raised=RAISED),
            FunctionError(
                type="KeyError",
                message="no time for another attempt: 'name'",
                traceback="Traceback…",
            ),
        ),
        (
            record(State.DEAD_LETTERED, error="attempt 5: T", raised=FunctionError(type="T")),
            FunctionError(type="T", message="attempt 5: T"),
        ),
    ],
    ids=["none", "ours", "raised, to be retried", "raised", "raised, then expired", "no message"],
)
def test_the_error_is_the_functions_own_if_it_raised_one(
    shown: Record, error: FunctionError | None
) -> None:
    assert invocation_view(Outcome(record=shown, body=NULL)).error == error
