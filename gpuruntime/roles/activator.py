"""The activator role: caches on every replica, functions' workers managed by the leader."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from gpuruntime.kube.client import Client
from gpuruntime.kube.transport import Transport
from gpuruntime.operations.operations import operations_of
from gpuruntime.roles.broker_options import demand_broker
from gpuruntime.roles.cluster_role import ClusterContext, cluster_role
from gpuruntime.roles.election import Election
from gpuruntime.roles.mirrors import Mirrors, not_synced, waits_for
from gpuruntime.roles.options import activator_options_of
from gpuruntime.roles.process import Process, queue_of
from gpuruntime.roles.role import RoleRunner, gauge_queue_ages
from gpuruntime.serverless.scaling.activator import Activator, recorder_of
from gpuruntime.serverless.scaling.workers import INDEXES, functions_in
from gpuruntime.settings.schema import Settings
from gpuruntime.telemetry.metric import RoleName
from gpuruntime.telemetry.metrics import Registry


def activator_role(
    settings: Settings, *, transport: Transport | None = None, process: Process | None = None
) -> "RoleRunner[ActivatorParts]":
    demand_broker(settings.nats)
    registry = Registry(RoleName.ACTIVATOR)
    return cluster_role(registry, settings, _opened, transport=transport, process=process)


class ActivatorParts:
    def __init__(self, context: ClusterContext) -> None:
        self.election = Election(context)
        self._context = context
        self._client = Client(context.transport, meter=context.registry, fence=self.election.fence)
        self.mirrors = Mirrors(context, self._client, is_checked=True)
        self._caches = self.mirrors.add_caches(INDEXES)
        self._queue = queue_of(context.settings.nats, context.process, context.registry)
        self._activator: Activator | None = None
        role = context.registry.role
        context.registry.gauge_from("leading", lambda: {(role,): float(self._is_leading)})

    @property
    def not_ready(self) -> str:
        return waits_for(not_synced(self.mirrors.informers))

    @property
    def facts(self) -> Mapping[str, object]:
        return {
            "leading": self._is_leading,
            "functions": len(functions_in(self._caches.units)),
            "queueProblem": self._queue.problem,
        }

    @property
    def _is_leading(self) -> bool:
        return self._activator is not None and self._activator.leadership.is_leading

    async def run(self, tasks: asyncio.TaskGroup) -> None:
        self._activator = activator = self._make_activator(tasks)
        registry = self._context.registry
        gauge_queue_ages(registry, activator.queues)
        registry.gauge_from("serverless_function_depth", activator.function_depths)
        registry.gauge_from("serverless_function_oldest_wait_seconds", activator.function_waits)
        tasks.create_task(self.election.run(), name="elector")
        self.mirrors.start(tasks)
        tasks.create_task(self._queue.run(), name="queue")
        tasks.create_task(self._lead(activator), name="lead")

    async def drain(self) -> None:
        """Let claims in progress end. If one is cut short, the lease expires unreleased."""
        if self._activator is not None:
            await self._activator.drain()
        self.election.release_at_end()

    async def _lead(self, activator: Activator) -> None:
        """Lead, after a consistent read that shows what an earlier leader has claimed."""
        await self.election.won(activator.recorder)
        informers = self.mirrors.informers
        for informer in informers.values():
            await informer.synced.wait()
        for name in ("units", "stock"):
            await informers[name].catch_up()
        await activator.run()

    def _make_activator(self, tasks: asyncio.TaskGroup) -> Activator:
        context = self._context.operation_context(self._client, self._caches)
        return Activator(
            context,
            operations_of(context, tasks).units,
            self._queue,
            activator_options_of(self._context.settings),
            recorder=recorder_of(context),
            catch_up=self.mirrors.informers["units"].catch_up,
        )


@asynccontextmanager
async def _opened(context: ClusterContext) -> AsyncIterator[ActivatorParts]:
    yield ActivatorParts(context)
