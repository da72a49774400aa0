"""The worker role runs one function's invocations beside its container, without Kubernetes."""

import asyncio
import socket
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from random import SystemRandom
from typing import Final

import structlog

from gpuruntime.bus.connection import Connection
from gpuruntime.bus.names import Names
from gpuruntime.errors import ConfigurationError
from gpuruntime.models.kinds.functions import Framework
from gpuruntime.models.kubernetes.names import is_dns_label
from gpuruntime.roles.broker_options import connection_options_of
from gpuruntime.roles.role import role_context
from gpuruntime.settings.schema import Settings
from gpuruntime.telemetry.metric import RoleName
from gpuruntime.telemetry.metrics import Registry
from gpuruntime.worker.framework import framework
from gpuruntime.worker.options import WorkerOptions
from gpuruntime.worker.worker import GIVE_BACK_SECONDS, Worker

log = structlog.get_logger()

STARTING: Final = "starting"
# A kubelet delivers a changed file within two minutes; this is our share of the delay.
REREAD_SECONDS: Final = 15.0


class WorkerRole:
    """Liveness does not depend on the framework: the two containers may start in any order.

    `reread` returns the current settings; changed limits take effect at once.
    """

    def __init__(self, settings: Settings, *, reread: Callable[[], Settings]) -> None:
        self._settings = settings
        self._reread = reread
        self._options = worker_options_of(settings)
        self._names = Names(settings.nats.subjectPrefix)
        self._registry = Registry(RoleName.WORKER)
        self._worker: Worker | None = None

    async def run(self) -> None:
        connection = Connection(
            connection_options_of(
                self._settings.nats,
                name=f"worker {self._options.function}/{self._options.name}",
                inbox_prefix=self._names.inbox(self._options.function),
            ),
            rng=SystemRandom(),
            meter=self._registry,
        )
        async with framework(self._options) as called:
            self._worker = worker = Worker(
                connection,
                called,
                self._options,
                names=self._names,
                now=lambda: datetime.now(UTC),
                rng=SystemRandom(),
                meter=self._registry,
            )
            async with role_context(
                self._settings,
                self._registry,
                not_ready=self._not_ready,
                facts=self._facts,
                drain=worker.drain,
            ) as tasks:
                tasks.create_task(connection.run(), name="broker")
                tasks.create_task(worker.run(), name="worker")
                tasks.create_task(self._follow_limits(worker), name="limits")

    async def drain(self) -> None:
        if self._worker is not None:
            await self._worker.drain()

    async def _follow_limits(self, worker: Worker) -> None:
        """Apply changed limits. An invalid file changes nothing."""
        while True:
            await asyncio.sleep(REREAD_SECONDS)
            try:
                options = worker_options_of(self._reread())
            except ConfigurationError as error:
                log.warning("settings not read again", error=str(error))
                continue
            worker.limit(
                attempt_seconds=options.attempt_seconds, max_attempts=options.max_attempts
            )

    def _not_ready(self) -> str:
        return self._worker.not_ready if self._worker else STARTING

    def _facts(self) -> Mapping[str, object]:
        worker = self._worker
        facts = {"role": "worker", "function": self._options.function}
        return facts if worker is None else {**facts, "state": worker.state, "busy": worker.busy}


def worker_options_of(settings: Settings) -> WorkerOptions:
    """Return the worker's options. Raise ConfigurationError if a required one is missing."""
    given = settings.worker
    if not given.function:
        raise ConfigurationError("worker.function is empty: name the worker's function")
    if not settings.nats.url:
        raise ConfigurationError("nats.url is empty: set the URL of the broker")
    name = given.name or socket.gethostname()
    if not is_dns_label(name):
        raise ConfigurationError(f"worker.name is empty, and the host's {name!r} is no DNS label")
    return WorkerOptions(
        function=given.function,
        name=name,
        uid=given.uid,
        declarer=given.declarer,
        namespace=given.namespace or settings.namespaces.instance,
        concurrency=given.concurrency,
        attempt_seconds=given.attemptTimeout,
        max_attempts=given.maxAttempts,
        framework=Framework(
            socketPath=given.framework.socketPath,
            invokePath=given.framework.invokePath,
            healthPath=given.framework.healthPath,
        ),
        ack_wait_seconds=given.ackWait,
        drain_seconds=max(settings.shutdownGrace - 2 * GIVE_BACK_SECONDS, 0.0),
        retention_seconds=given.resultRetention,
    )
