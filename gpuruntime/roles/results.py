"""The results role keeps results and ends overdue invocations; any number of replicas."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import attrs

from gpuruntime.bus.connection import Connection
from gpuruntime.bus.names import Names
from gpuruntime.roles.broker_options import connection_options_of, demand_broker
from gpuruntime.roles.process import Process
from gpuruntime.roles.result_store import result_store
from gpuruntime.roles.role import RoleRunner
from gpuruntime.serverless.results.follower import Results, ResultsOptions
from gpuruntime.serverless.results.store_state import StoreState
from gpuruntime.settings.options import options_of
from gpuruntime.settings.schema import Settings
from gpuruntime.telemetry.metric import RoleName
from gpuruntime.telemetry.metrics import Registry


def results_role(
    settings: Settings, *, process: Process | None = None
) -> "RoleRunner[ResultsParts]":
    """Return the role. It does not use Kubernetes."""
    demand_broker(settings.nats)
    process = process or Process()
    registry = Registry(RoleName.RESULTS)

    @asynccontextmanager
    async def opened() -> AsyncIterator[ResultsParts]:
        connection = Connection(
            connection_options_of(settings.nats, name=f"results {process.identity}"),
            rng=process.rng,
            meter=registry,
            opener=process.opener,
        )
        options = options_of(ResultsOptions, settings.results)
        async with result_store(settings, name="gpuruntime results") as store:
            keeping = (
                None
                if store is None
                else StoreState(
                    store,
                    retention_seconds=settings.results.retention,
                    window_seconds=options.longest_pause_seconds + 2 * options.ack_wait_seconds,
                    now=process.now,
                    rng=process.rng,
                    meter=registry,
                )
            )
            results = Results(
                connection,
                Names(settings.nats.subjectPrefix),
                options,
                keeping,
                now=process.now,
                rng=process.rng,
                meter=registry,
            )
            kind = settings.results.store.value
            yield ResultsParts(connection=connection, results=results, store=kind)

    return RoleRunner(settings, registry, opened, role_context=process.role_context)


@attrs.frozen(kw_only=True)
class ResultsParts:
    """The role is not ready while broker or store are away."""

    connection: Connection
    results: Results
    store: str

    @property
    def not_ready(self) -> str:
        return self.results.not_ready

    @property
    def facts(self) -> Mapping[str, object]:
        return {"store": self.store, "inHand": self.results.in_hand}

    async def run(self, tasks: asyncio.TaskGroup) -> None:
        tasks.create_task(self.connection.run(), name="broker")
        tasks.create_task(self.results.run(), name="results")

    async def drain(self) -> None:
        await self.results.drain()
