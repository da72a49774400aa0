"""The surroundings of every role: operations listener, measurements and status line."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

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


@asynccontextmanager
async def role_context(
    settings: Settings,
    registry: Registry,
    *,
    not_ready: Callable[[], str],
    facts: Callable[[], Mapping[str, object]],
    drain: Callable[[], Awaitable[None]] | None = None,
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
