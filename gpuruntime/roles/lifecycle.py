"""A role starts, stops on a signal, and its end becomes an exit code.

Contract: after the first SIGTERM or SIGINT the role drains within its grace and the process exits
0. A second signal exits at once. A crash of any long-lived task ends the process.
"""

import asyncio
import gc
import os
import signal
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Protocol

import structlog

from gpuruntime.concurrency.garbage_collection import FrozenSurvivors
from gpuruntime.errors import ClusterRequiredError, ConfigurationError, StateNotKeptError
from gpuruntime.kube.errors import LeadershipLostError
from gpuruntime.telemetry.loop_passes import MeasuredLoop

log = structlog.get_logger()

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class ExitCode(IntEnum):
    DONE = 0
    CRASH = 1
    CONFIGURATION = 2
    CLUSTER_REQUIRED = 3
    LOST_LEADERSHIP = 4


KNOWN_ENDS: tuple[tuple[type[Exception], ExitCode, str], ...] = (
    (ConfigurationError, ExitCode.CONFIGURATION, "configuration refused"),
    (ClusterRequiredError, ExitCode.CLUSTER_REQUIRED, "cluster required"),
    (LeadershipLostError, ExitCode.LOST_LEADERSHIP, "leadership lost"),
    (StateNotKeptError, ExitCode.CRASH, "state not kept"),
)


class Role(Protocol):
    async def run(self) -> None:
        """Run until cancelled. An error ends the process."""
        ...

    async def drain(self) -> None:
        """Report not ready and take no new work. Return when the work in progress has ended."""
        ...


class Lifecycle:
    """A lifecycle runs one role in the calling process."""

    def __init__(self, role: Role, *, grace_seconds: float) -> None:
        self._role = role
        self._grace_seconds = grace_seconds
        self._stop = asyncio.Event()

    async def run(self) -> ExitCode:
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._on_signal, number)
        try:
            return await self._run()
        finally:
            for number in SIGNALS:
                loop.remove_signal_handler(number)

    def stop(self) -> None:
        self._stop.set()

    def _on_signal(self, number: int) -> None:
        if self._stop.is_set():
            log.warning("second signal, exiting at once", signal=signal.Signals(number).name)
            os._exit(128 + number)
        log.info("stopping", signal=signal.Signals(number).name)
        self.stop()

    async def _run(self) -> ExitCode:
        try:
            async with asyncio.TaskGroup() as group:
                running = group.create_task(self._role.run(), name="role")
                drain = group.create_task(self._drain_on_stop(running), name="drain")
                running.add_done_callback(lambda _: drain.cancel())
        except BaseExceptionGroup as errors:
            return exit_code_of(errors)
        return ExitCode.DONE

    async def _drain_on_stop(self, running: asyncio.Task[None]) -> None:
        await self._stop.wait()
        try:
            async with asyncio.timeout(self._grace_seconds):
                await self._role.drain()
        except TimeoutError:
            log.warning(
                "grace has passed, work in progress is cut", grace_seconds=self._grace_seconds
            )
        running.cancel()


def exit_code_of(error: BaseException) -> ExitCode:
    """Log one line for a fault that an operator can resolve, else a traceback. Return the code."""
    for leaf in _leaves(error):
        for kind, code, event in KNOWN_ENDS:
            if isinstance(leaf, kind):
                log.error(event, error=str(leaf))
                return code
    log.error("crashed", exc_info=error)
    return ExitCode.CRASH


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield all errors of nested groups: a failure and its consequences share a group."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def run_to_exit(make: Callable[[], Role], *, grace_seconds: float) -> int:
    """Run a role's subcommand to its exit code.

    Modules imported by now live as long as the process. They are frozen, because a collection
    would walk them for 60 ms each time.
    """
    gc.collect()
    gc.freeze()

    async def main() -> ExitCode:
        try:
            role = make()
        except (ConfigurationError, ClusterRequiredError) as error:
            return exit_code_of(error)
        with FrozenSurvivors():
            return await Lifecycle(role, grace_seconds=grace_seconds).run()

    with asyncio.Runner(loop_factory=MeasuredLoop) as runner:
        return int(runner.run(main()))
