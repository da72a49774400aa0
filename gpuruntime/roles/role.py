"""The frame of every role: its parts, operations listener, measurements, status line and drain."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.metadata import version
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

import structlog

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.concurrency.garbage_collection import GarbagePauses
from gpuruntime.settings.schema import Settings
from gpuruntime.telemetry.listener import operations_listener
from gpuruntime.telemetry.loop_passes import MeasuredLoop
from gpuruntime.telemetry.metrics import Registry
from gpuruntime.telemetry.reporter import measure_loop_lag, report_status
from gpuruntime.workqueue.queue import WorkQueue

log = structlog.get_logger()

STOPPING: Final = "stopping"
Drain: TypeAlias = Callable[[], Awaitable[None]]


class Parts(Protocol):
    """The parts of one role; they exist while its connections are open."""

    @property
    def not_ready(self) -> str:
        """Return why the role takes no work; empty while it does."""
        ...

    @property
    def facts(self) -> Mapping[str, object]:
        """Return what the status line reports. It is read on the loop, so from memory only."""
        ...

    async def run(self, tasks: asyncio.TaskGroup) -> None:
        """Start the tasks that live as long as the role."""
        ...

    async def drain(self) -> None:
        """Take no new work. Return when the work in progress has ended."""
        ...


class RoleContext(Protocol):
    """The context in which parts run; the group holds the tasks that live as long as the role."""

    def __call__(
        self,
        settings: Settings,
        registry: Registry,
        *,
        not_ready: Callable[[], str],
        facts: Callable[[], Mapping[str, object]],
        drain: Drain | None,
    ) -> AbstractAsyncContextManager[asyncio.TaskGroup]: ...


PartsT = TypeVar("PartsT", bound=Parts)


@asynccontextmanager
async def role_context(
    settings: Settings,
    registry: Registry,
    *,
    not_ready: Callable[[], str],
    facts: Callable[[], Mapping[str, object]],
    drain: Drain | None,
) -> AsyncIterator[asyncio.TaskGroup]:
    """Yield a group for tasks that live as long as the role. If one of them fails, the role ends.

    `drain` is given for roles that a Pod's preStop hook drains, ahead of the signal.
    """
    address = settings.operations.listen
    _report_itself(registry, not_ready)
    loop = asyncio.get_running_loop()
    held = loop.longest_pass().take if isinstance(loop, MeasuredLoop) else None

    def record_pause(generation: str, seconds: float) -> None:
        registry.observe("gc_pause_seconds", seconds, generation=generation)

    with GarbagePauses(record_pause, clock=loop.time) as pauses:
        async with (
            operations_listener(
                host=address.host,
                port=address.port,
                registry=registry,
                not_ready=not_ready,
                drain=drain,
            ) as port,
            asyncio.TaskGroup() as tasks,
        ):
            log.info(
                "operations listening", address=f"http://{address.host or '127.0.0.1'}:{port}"
            )
            status = report_status(facts, interval_seconds=settings.reportInterval)
            tasks.create_task(status, name="status")
            lag = measure_loop_lag(registry, clock=loop_time, held=held)
            tasks.create_task(lag, name="loop-lag")
            tasks.create_task(pauses.run(), name="gc-pauses")
            yield tasks


class RoleRunner(Generic[PartsT]):
    """RoleRunner opens the parts of one role, runs them in the role's context, and drains them."""

    def __init__(
        self,
        settings: Settings,
        registry: Registry,
        open_parts: Callable[[], AbstractAsyncContextManager[PartsT]],
        *,
        role_context: RoleContext = role_context,
        has_drain_hook: bool = False,
    ) -> None:
        """If `has_drain_hook`, the preStop hook of the role's Pod may drain it, too."""
        self.parts: PartsT | None = None
        self._settings = settings
        self._registry = registry
        self._open_parts = open_parts
        self._role_context = role_context
        self._has_drain_hook = has_drain_hook
        self._opened = asyncio.Event()
        self._is_stopping = False

    async def opened(self) -> PartsT:
        """Return the parts as soon as they exist."""
        await self._opened.wait()
        assert self.parts is not None
        return self.parts

    async def run(self) -> None:
        async with self._open_parts() as parts:
            self.parts = parts
            self._opened.set()
            async with self._role_context(
                self._settings,
                self._registry,
                not_ready=lambda: parts.not_ready or (STOPPING if self._is_stopping else ""),
                facts=lambda: {"role": self._registry.role, **parts.facts},
                drain=parts.drain if self._has_drain_hook else None,
            ) as tasks:
                await parts.run(tasks)

    async def drain(self) -> None:
        self._is_stopping = True
        if self.parts is not None:
            await self.parts.drain()


def gauge_queue_ages(registry: Registry, queues: Collection[WorkQueue[Any]]) -> None:
    """Report at each scrape how long the oldest key of each queue has waited.

    If nothing serves a queue, no other metric of it moves.
    """
    registry.gauge_from(
        "workqueue_oldest_seconds",
        lambda: {(queue.name,): queue.oldest_seconds for queue in queues},
    )


def _report_itself(registry: Registry, not_ready: Callable[[], str]) -> None:
    role = registry.role
    registry.gauge("build_info", 1, role=role, version=version("gpuruntime"))
    registry.gauge_from("ready", lambda: {(role,): float(not not_ready())})
