"""The worker role runs one function's invocations beside its container, without Kubernetes."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from random import SystemRandom
from typing import Final

import attrs
import structlog

from gpuruntime.bus.connection import Connection
from gpuruntime.bus.names import Names
from gpuruntime.errors import ConfigurationError
from gpuruntime.models.kinds.functions import Framework
from gpuruntime.models.kubernetes.names import is_dns_label
from gpuruntime.roles.broker_options import connection_options_of, demand_broker
from gpuruntime.roles.role import RoleRunner
from gpuruntime.settings.options import options_of
from gpuruntime.settings.schema import Settings
from gpuruntime.telemetry.metric import RoleName
from gpuruntime.telemetry.metrics import Registry
from gpuruntime.worker.framework import framework
from gpuruntime.worker.options import WorkerOptions
from gpuruntime.worker.worker import GIVE_BACK_SECONDS, Worker

log = structlog.get_logger()

# A kubelet delivers a changed file within two minutes; this is our share of the delay.
REREAD_SECONDS: Final = 15.0


def worker_role(
    settings: Settings, *, reread: Callable[[], Settings]
) -> "RoleRunner[WorkerParts]":
    """Return the role. `reread` returns the current settings; changed limits take effect at once.

    Liveness does not depend on the framework: the two containers may start in any order.
    """
    options, names = worker_options_of(settings), Names(settings.nats.subjectPrefix)
    registry = Registry(RoleName.WORKER)

    @asynccontextmanager
    async def opened() -> AsyncIterator[WorkerParts]:
        connection = Connection(
            connection_options_of(
                settings.nats,
                name=f"worker {options.function}/{options.name}",
                inbox_prefix=names.inbox(options.function),
            ),
            rng=SystemRandom(),
            meter=registry,
        )
        async with framework(options) as called:
            worker = Worker(
                connection,
                called,
                options,
                names=names,
                now=lambda: datetime.now(UTC),
                rng=SystemRandom(),
                meter=registry,
            )
            yield WorkerParts(
                connection=connection, worker=worker, function=options.function, reread=reread
            )

    return RoleRunner(settings, registry, opened, has_drain_hook=True)


@attrs.frozen(kw_only=True)
class WorkerParts:
    connection: Connection
    worker: Worker
    function: str
    reread: Callable[[], Settings]

    @property
    def not_ready(self) -> str:
        return self.worker.not_ready

    @property
    def facts(self) -> Mapping[str, object]:
        worker = self.worker
        return {"function": self.function, "state": worker.state, "busy": worker.busy}

    async def run(self, tasks: asyncio.TaskGroup) -> None:
        tasks.create_task(self.connection.run(), name="broker")
        tasks.create_task(self.worker.run(), name="worker")
        tasks.create_task(follow_limits(self.worker, self.reread), name="limits")

    async def drain(self) -> None:
        await self.worker.drain()


async def follow_limits(worker: Worker, reread: Callable[[], Settings]) -> None:
    """Apply changed limits. An invalid file changes nothing."""
    while True:
        await asyncio.sleep(REREAD_SECONDS)
        try:
            options = worker_options_of(reread())
        except ConfigurationError as error:
            log.warning("settings not read again", error=str(error))
            continue
        worker.limit(attempt_seconds=options.attempt_seconds, max_attempts=options.max_attempts)


def worker_options_of(settings: Settings) -> WorkerOptions:
    """Return the worker's options. Raise ConfigurationError if a required one is missing."""
    given = settings.worker
    if not given.function:
        raise ConfigurationError("worker.function is empty: name the worker's function")
    demand_broker(settings.nats)
    name = given.name or socket.gethostname()
    if not is_dns_label(name):
        raise ConfigurationError(f"worker.name is empty, and the host's {name!r} is no DNS label")
    return options_of(
        WorkerOptions,
        given,
        name=name,
        namespace=given.namespace or settings.namespaces.instance,
        framework=Framework(**attrs.asdict(given.framework)),
        drain_seconds=max(settings.shutdownGrace - 2 * GIVE_BACK_SECONDS, 0.0),
        retention_seconds=given.resultRetention,
    )
