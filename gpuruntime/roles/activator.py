"""The activator role: caches on every replica, functions' workers managed by the leader."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from gpuruntime.errors import ConfigurationError
from gpuruntime.informer.informer import Informer
from gpuruntime.kube.client import Client
from gpuruntime.kube.lease import Elector
from gpuruntime.kube.transport import Transport
from gpuruntime.kube.watch import Selection
from gpuruntime.models.kinds.pools import STOCK_POOLS
from gpuruntime.models.kinds.storages import GPU_STORAGES
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.operations.context import OperationContext
from gpuruntime.operations.lookup.caches import (
    POOL_INDEXES,
    STOCK_INDEXES,
    STORAGE_INDEXES,
    Caches,
)
from gpuruntime.operations.operations import operations_of
from gpuruntime.operations.options import Options
from gpuruntime.roles.cluster_connection import transport_of
from gpuruntime.roles.election import elector_of, record_term
from gpuruntime.roles.mirrors import Mirror, mirrors, waits_for
from gpuruntime.roles.options import namespaces_of
from gpuruntime.roles.process import Process, queue_of
from gpuruntime.roles.role import gauge_queue_ages
from gpuruntime.serverless.broker import BrokerLink
from gpuruntime.serverless.scaling.activator import Activator, ActivatorOptions, recorder_of
from gpuruntime.serverless.scaling.workers import INDEXES, functions_in
from gpuruntime.settings.schema import Settings
from gpuruntime.telemetry.metric import RoleName
from gpuruntime.telemetry.metrics import Registry

STOPPING: Final = "stopping"


class ActivatorRole:
    """The activator leads at once without an election. A given transport is the caller's."""

    def __init__(
        self,
        settings: Settings,
        *,
        transport: Transport | None = None,
        process: Process | None = None,
    ) -> None:
        if not settings.nats.url:
            raise ConfigurationError("nats.url is empty: set the URL of the broker")
        self._settings = settings
        self._transport = transport
        self._process = process or Process()
        self._registry = Registry(RoleName.ACTIVATOR)
        self._registry.gauge_from("leading", self._leading_series)
        self._informers: dict[str, Informer[Any]] = {}
        self._elector: Elector | None = None
        self._activator: Activator | None = None
        self._queue: BrokerLink | None = None
        self._is_leading = False
        self._is_stopping = False

    async def run(self) -> None:
        async with transport_of(self._transport, self._settings.kubernetes) as transport:
            await self._serve(transport)

    async def drain(self) -> None:
        """Let claims in progress end. If one is cut short, the lease expires unreleased."""
        self._is_stopping = True
        if self._activator is not None:
            await self._activator.drain()
        if self._elector is not None:
            self._elector.gives_back = True

    async def _serve(self, transport: Transport) -> None:
        self._elector = elector = elector_of(
            self._settings, transport, self._process, self._registry, role="activator"
        )
        fence = elector.fence if elector else None
        client = Client(transport, meter=self._registry, fence=fence)
        self._informers = self._make_informers(client)
        self._queue = queue = queue_of(
            self._settings.nats, self._process, self._registry, role="activator"
        )
        async with self._process.role_context(
            self._settings, self._registry, not_ready=self._not_ready, facts=self._facts
        ) as tasks:
            self._activator = activator = self._make_activator(client, queue, tasks)
            gauge_queue_ages(self._registry, activator.queues)
            self._report_functions(activator)
            if elector is not None:
                tasks.create_task(elector.run(), name="elector")
            for name, informer in self._informers.items():
                tasks.create_task(informer.run(), name=f"inform {name}")
            tasks.create_task(queue.run(), name="queue")
            tasks.create_task(self._lead(elector, activator), name="lead")

    async def _lead(self, elector: Elector | None, activator: Activator) -> None:
        """Lead, after a consistent read that shows what an earlier leader has claimed."""
        if elector is not None:
            await elector.leading.wait()
            record_term(activator.recorder, elector)
        for informer in self._informers.values():
            await informer.synced.wait()
        for name in ("units", "stock"):
            await self._informers[name].catch_up()
        self._is_leading = True
        await activator.run()

    def _make_activator(
        self, client: Client, queue: BrokerLink, tasks: asyncio.TaskGroup
    ) -> Activator:
        informers, settings = self._informers, self._settings
        context = OperationContext(
            client=client,
            caches=Caches(
                stock=informers["stock"],
                units=informers["units"],
                pools=informers["pools"],
                storages=informers["storages"],
            ),
            options=Options(
                namespaces=namespaces_of(settings), retention_seconds=settings.operationRetention
            ),
            now=self._process.now,
            rng=self._process.rng,
            meter=self._registry,
        )
        options = ActivatorOptions(
            ack_wait_seconds=settings.worker.ackWait,
            retention_seconds=settings.worker.resultRetention,
        )
        units = operations_of(context, tasks).units
        return Activator(
            context,
            units,
            queue,
            options,
            recorder=recorder_of(context),
            catch_up=informers["units"].catch_up,
        )

    def _make_informers(self, client: Client) -> dict[str, Informer[Any]]:
        namespaces = self._settings.namespaces
        stock = Selection(namespace=namespaces.stock)
        instance = Selection(namespace=namespaces.instance)
        table: tuple[Mirror, ...] = (
            ("stock", GPU_UNITS, stock, STOCK_INDEXES),
            ("units", GPU_UNITS, instance, INDEXES),
            ("pools", STOCK_POOLS, stock, POOL_INDEXES),
            ("storages", GPU_STORAGES, instance, STORAGE_INDEXES),
        )
        return mirrors(client, table, self._process, self._registry, is_checked=True)

    def _report_functions(self, activator: Activator) -> None:
        registry = self._registry
        registry.gauge_from("serverless_function_depth", activator.function_depths)
        registry.gauge_from("serverless_function_oldest_wait_seconds", activator.function_waits)

    def _leading_series(self) -> Mapping[tuple[str, ...], float]:
        return {(self._registry.role,): float(self._is_leading)}

    def _not_ready(self) -> str:
        if self._is_stopping:
            return STOPPING
        unsynced = [name for name, each in self._informers.items() if not each.synced.is_set()]
        return waits_for(unsynced)

    def _facts(self) -> Mapping[str, object]:
        facts = {"role": "activator", "leading": self._is_leading}
        if not self._informers or self._queue is None:
            return facts
        functions = functions_in(self._informers["units"])
        return {**facts, "functions": len(functions), "queueProblem": self._queue.problem}
