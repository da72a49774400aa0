import asyncio
import gc
import os
import signal

import pytest
import structlog

from gpuruntime.errors import ClusterRequiredError, ConfigurationError
from gpuruntime.kube.errors import LeadershipLostError
from gpuruntime.roles.lifecycle import ExitCode, Lifecycle, run_to_exit


class Steps:
    """A role that records its calls."""

    def __init__(self, *, drain_seconds: float = 0.0, error: Exception | None = None) -> None:
        self.seen: list[str] = []
        self._drain_seconds = drain_seconds
        self._error = error

    async def run(self) -> None:
        self.seen.append("run")
        if self._error:
            raise self._error
        try:
            await asyncio.Event().wait()
        finally:
            self.seen.append("ended")

    async def drain(self) -> None:
        self.seen.append("drain")
        await asyncio.sleep(self._drain_seconds)
        self.seen.append("drained")


@pytest.mark.looptime
async def test_a_stop_drains_before_it_cancels() -> None:
    role = Steps(drain_seconds=5)
    lifecycle = Lifecycle(role, grace_seconds=10)
    asyncio.get_running_loop().call_later(1, lifecycle.stop)
    assert await lifecycle.run() is ExitCode.DONE
    assert role.seen == ["run", "drain", "drained", "ended"]


@pytest.mark.looptime
async def test_work_that_outlasts_the_grace_is_cut_and_the_exit_is_still_clean() -> None:
    role = Steps(drain_seconds=100)
    lifecycle = Lifecycle(role, grace_seconds=10)
    loop = asyncio.get_running_loop()
    loop.call_later(1, lifecycle.stop)
    with structlog.testing.capture_logs() as lines:
        assert await lifecycle.run() is ExitCode.DONE
    assert role.seen == ["run", "drain", "ended"]
    assert loop.time() == pytest.approx(11)
    assert lines[-1]["event"] == "grace has passed, work in progress is cut"


async def test_a_real_sigterm_stops_the_role() -> None:
    role = Steps()
    loop = asyncio.get_running_loop()
    loop.call_soon(loop.call_soon, os.kill, os.getpid(), signal.SIGTERM)
    assert await Lifecycle(role, grace_seconds=10).run() is ExitCode.DONE
    assert "drained" in role.seen


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigurationError("listen: port in use"), 2),
        (ClusterRequiredError("no cluster"), 3),
        (LeadershipLostError("lease is held by another"), 4),
        (ZeroDivisionError(), 1),
        (ExceptionGroup("", [ValueError(), LeadershipLostError("lost")]), 4),
    ],
    ids=[
        "configuration",
        "cluster required",
        "leadership lost",
        "unexpected error",
        "group with lost leadership",
    ],
)
async def test_the_error_of_a_role_becomes_its_exit_code(error: Exception, code: int) -> None:
    with structlog.testing.capture_logs() as lines:
        assert await Lifecycle(Steps(error=error), grace_seconds=1).run() == code
    assert [line["log_level"] for line in lines] == ["error"]


@pytest.mark.usefixtures("thawed")
def test_objects_that_exist_before_a_role_runs_are_frozen() -> None:
    before = [object()]

    class Looking:
        async def run(self) -> None:
            assert all(each is not before for each in gc.get_objects())

        async def drain(self) -> None:
            pass

    assert run_to_exit(Looking, grace_seconds=1) == ExitCode.DONE
