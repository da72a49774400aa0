"""The manager role: caches on every replica, reconcilers on the leader."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from math import inf

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.kube.client import Client
from gpuruntime.kube.transport import Transport
from gpuruntime.reconcilers.informers import ReconcilerContext
from gpuruntime.reconcilers.object_metrics import Rows
from gpuruntime.reconcilers.unit.start_plan import Term
from gpuruntime.reconcilers.wiring import Reconcilers
from gpuruntime.roles.cluster_role import ClusterContext, cluster_role
from gpuruntime.roles.election import Election
from gpuruntime.roles.mirrors import waits_for
from gpuruntime.roles.options import activity_options_of, mint_of, unit_options_of
from gpuruntime.roles.process import Process
from gpuruntime.roles.role import RoleRunner, gauge_queue_ages
from gpuruntime.settings.schema import Settings
from gpuruntime.telemetry.metric import RoleName
from gpuruntime.telemetry.metrics import Registry


def manager_role(
    settings: Settings, *, transport: Transport | None = None, process: Process | None = None
) -> "RoleRunner[ManagerParts]":
    """Return the role; no other client's requests reach the server of a given transport."""
    registry = Registry(RoleName.MANAGER)
    return cluster_role(registry, settings, _opened, transport=transport, process=process)


class ManagerParts:
    def __init__(self, context: ClusterContext) -> None:
        self.election = Election(context)
        # Before the term begins, its age is negative infinity.
        self._led_since = inf
        self._is_clean_term = context.is_alone
        self._client = Client(context.transport, meter=context.registry, fence=self.election.fence)
        self.reconcilers = self._make_reconcilers(context)
        self._report_objects(context)
        gauge_queue_ages(context.registry, self.reconcilers.queues)

    @property
    def not_ready(self) -> str:
        return waits_for(self.reconcilers.unsynced)

    @property
    def facts(self) -> Mapping[str, object]:
        informers = self.reconcilers.informers
        return {
            "leading": self.reconcilers.leadership.is_leading,
            "units": len(informers.units.store),
            "stock": len(informers.stock.store),
            "pools": len(informers.pools.store),
            "unsynced": self.reconcilers.unsynced,
        }

    async def run(self, tasks: asyncio.TaskGroup) -> None:
        tasks.create_task(self.election.run(), name="elector")
        tasks.create_task(self.reconcilers.run_caches(), name="caches")
        tasks.create_task(self._lead(), name="lead")

    async def drain(self) -> None:
        """Drain the reconcilers. If a write may still take effect, the lease is left to expire."""
        await self.reconcilers.drain()
        if self._ends_clean():
            self.election.release_at_end()

    def _ends_clean(self) -> bool:
        """Return whether the next leader may rely on the state that it finds."""
        age = loop_time() - self._client.last_doubt
        return self._term().ends_clean(doubt_seconds=age)

    async def _lead(self) -> None:
        await self.election.won(self.reconcilers.recorder)
        self._is_clean_term = self.election.follows_clean_end
        self._led_since = loop_time()
        await self.reconcilers.run()

    def _term(self) -> Term:
        age = loop_time() - self._led_since
        return Term(age_seconds=age, is_clean=self._is_clean_term)

    def _make_reconcilers(self, context: ClusterContext) -> Reconcilers:
        settings, process = context.settings, context.process
        return Reconcilers(
            ReconcilerContext(
                client=self._client,
                options=unit_options_of(settings),
                retention_seconds=settings.operationRetention,
                term=self._term,
                now=process.now,
                rng=process.rng,
                meter=context.registry,
                mint=mint_of(settings, now=process.now),
                activity=activity_options_of(settings, process.fetching, process.gateways),
            )
        )

    def _report_objects(self, context: ClusterContext) -> None:
        """Report objects on the leader only, so that the sum over all replicas is right."""
        registry, leadership = context.registry, self.reconcilers.leadership

        def if_leading(look: Callable[[], Rows]) -> Callable[[], Rows]:
            return lambda: look() if leadership.is_leading else {}

        object_metrics = self.reconcilers.object_metrics
        registry.gauge_from("leading", lambda: {(registry.role,): float(leadership.is_leading)})
        registry.gauge_from("stock_units", if_leading(object_metrics.stock_units))
        registry.gauge_from("stock_wanted", if_leading(object_metrics.stock_wanted))
        registry.gauge_from("units", if_leading(object_metrics.units))
        registry.gauge_from("storages", if_leading(object_metrics.storages))
        registry.gauge_from("pools", if_leading(object_metrics.pools))
        activity = self.reconcilers.activity
        if activity is not None:
            registry.gauge_from(
                "activity_known_seconds", if_leading(lambda: {(): activity.known_seconds})
            )


@asynccontextmanager
async def _opened(context: ClusterContext) -> AsyncIterator[ManagerParts]:
    yield ManagerParts(context)
