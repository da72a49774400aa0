"""The manager role: caches on every replica, reconcilers on the leader."""

from collections.abc import Callable, Mapping
from math import inf
from typing import Final

import structlog

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.kube.client import Client
from gpuruntime.kube.lease import Elector
from gpuruntime.kube.transport import Transport
from gpuruntime.reconcilers.informers import ReconcilerContext
from gpuruntime.reconcilers.object_metrics import Rows
from gpuruntime.reconcilers.unit.start_plan import Term
from gpuruntime.reconcilers.wiring import Reconcilers
from gpuruntime.roles.cluster_connection import transport_of
from gpuruntime.roles.election import elector_of, record_term
from gpuruntime.roles.mirrors import waits_for
from gpuruntime.roles.options import mint_of, unit_options_of
from gpuruntime.roles.process import Process
from gpuruntime.roles.role import gauge_queue_ages
from gpuruntime.settings.schema import Settings
from gpuruntime.telemetry.metric import RoleName
from gpuruntime.telemetry.metrics import Registry

log = structlog.get_logger()

STOPPING: Final = "stopping"


class Manager:
    """The manager leads at once if there is no election."""

    def __init__(
        self,
        settings: Settings,
        *,
        transport: Transport | None = None,
        process: Process | None = None,
    ) -> None:
        """A given transport belongs to the caller; no other client's requests reach its server."""
        self._settings = settings
        self._transport = transport
        self._process = process or Process()
        self._registry = Registry(RoleName.MANAGER)
        self._reconcilers: Reconcilers | None = None
        self._client: Client | None = None
        self._elector: Elector | None = None
        self._is_stopping = False
        # Before the term begins, its age is negative infinity.
        self._led_since = inf
        self._is_clean_term = transport is not None

    async def run(self) -> None:
        async with transport_of(self._transport, self._settings.kubernetes) as transport:
            await self._serve(transport)

    async def drain(self) -> None:
        """Drain the reconcilers. If a write may still take effect, the lease is left to expire."""
        self._is_stopping = True
        if self._reconcilers is not None:
            await self._reconcilers.drain()
        if self._elector is not None:
            self._elector.gives_back = self._ends_clean()

    def _ends_clean(self) -> bool:
        """Return whether the next leader may rely on the state that it finds."""
        last_doubt = self._client.last_doubt if self._client else -inf
        age = loop_time() - last_doubt
        return self._term().ends_clean(doubt_seconds=age)

    async def _serve(self, transport: Transport) -> None:
        self._elector = elector = elector_of(
            self._settings, transport, self._process, self._registry, role="manager"
        )
        fence = elector.fence if elector else None
        self._client = client = Client(transport, meter=self._registry, fence=fence)
        self._reconcilers = reconcilers = self._make_reconcilers(client)
        self._report_objects(reconcilers)
        gauge_queue_ages(self._registry, reconcilers.queues)
        async with self._process.role_context(
            self._settings, self._registry, not_ready=self._not_ready, facts=self._facts
        ) as tasks:
            if elector is not None:
                tasks.create_task(elector.run(), name="elector")
            tasks.create_task(reconcilers.run_caches(), name="caches")
            tasks.create_task(self._lead(elector, reconcilers), name="lead")

    async def _lead(self, elector: Elector | None, reconcilers: Reconcilers) -> None:
        if elector is not None:
            await elector.leading.wait()
            self._is_clean_term = elector.follows_clean_end
            record_term(reconcilers.recorder, elector)
        self._led_since = loop_time()
        await reconcilers.run()

    def _report_objects(self, reconcilers: Reconcilers) -> None:
        """Report objects on the leader only, so that the sum over all replicas is right."""

        def if_leading(look: Callable[[], Rows]) -> Callable[[], Rows]:
            return lambda: look() if reconcilers.is_leading else {}

        registry, object_metrics = self._registry, reconcilers.object_metrics
        registry.gauge_from("leading", lambda: {(registry.role,): float(reconcilers.is_leading)})
        registry.gauge_from("stock_units", if_leading(object_metrics.stock_units))
        registry.gauge_from("stock_wanted", if_leading(object_metrics.stock_wanted))
        registry.gauge_from("units", if_leading(object_metrics.units))
        registry.gauge_from("storages", if_leading(object_metrics.storages))
        registry.gauge_from("pools", if_leading(object_metrics.pools))

    def _term(self) -> Term:
        age = loop_time() - self._led_since
        return Term(age_seconds=age, is_clean=self._is_clean_term)

    def _make_reconcilers(self, client: Client) -> Reconcilers:
        return Reconcilers(
            ReconcilerContext(
                client=client,
                options=unit_options_of(self._settings),
                retention_seconds=self._settings.operationRetention,
                term=self._term,
                now=self._process.now,
                rng=self._process.rng,
                meter=self._registry,
                mint=mint_of(self._settings, now=self._process.now),
            )
        )

    def _not_ready(self) -> str:
        if self._is_stopping:
            return STOPPING
        unsynced = self._reconcilers.unsynced if self._reconcilers else ["everything"]
        return waits_for(unsynced)

    def _facts(self) -> Mapping[str, object]:
        reconcilers = self._reconcilers
        if reconcilers is None:
            return {"role": "manager"}
        informers = reconcilers.informers
        return {
            "role": "manager",
            "leading": reconcilers.is_leading,
            "units": len(informers.units.store),
            "stock": len(informers.stock.store),
            "pools": len(informers.pools.store),
            "unsynced": reconcilers.unsynced,
        }
