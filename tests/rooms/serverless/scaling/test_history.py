import pytest

from gpuruntime.serverless.scaling.history import FunctionHistory
from gpuruntime.serverless.scaling.plan import Worker, WorkerPhase

READY = (Worker(name="echo-w-1", phase=WorkerPhase.READY),)
LOST = (Worker(name="echo-w-1", phase=WorkerPhase.ADRIFT),)


@pytest.mark.parametrize(("lost_again_at", "seconds"), [(14.0, 20.0), (15.0, 10.0)])
def test_only_who_was_ready_for_as_long_as_the_back_off_is_lost_for_the_first_time_again(
    lost_again_at: float, seconds: float
) -> None:
    memory = FunctionHistory.of("t", 1, 0.0)
    memory.note_replacement(0.0)
    memory.started(READY, 5.0)
    memory.started(READY, 6.0)
    memory.started(LOST, lost_again_at)
    memory.note_replacement(140.0)
    assert memory.replacement_in_seconds(140.0) == seconds
