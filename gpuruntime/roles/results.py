"""The results role keeps results and ends overdue invocations; any number of replicas."""

from collections.abc import Mapping
from typing import Final

from gpuruntime.bus.connection import Connection
from gpuruntime.bus.names import Names
from gpuruntime.errors import ConfigurationError
from gpuruntime.roles.broker_options import connection_options_of
from gpuruntime.roles.process import Process
from gpuruntime.roles.result_store import result_store
from gpuruntime.serverless.results.follower import Results, ResultsOptions
from gpuruntime.serverless.results.store import ResultStore
from gpuruntime.serverless.results.store_state import StoreState
from gpuruntime.settings.schema import Settings
from gpuruntime.telemetry.metric import RoleName
from gpuruntime.telemetry.metrics import Registry

STARTING: Final = "starting"


class ResultsRole:
    """The role does not use Kubernetes. It is not ready while broker or store are away."""

    def __init__(self, settings: Settings, *, process: Process | None = None) -> None:
        if not settings.nats.url:
            raise ConfigurationError("nats.url is empty: set the URL of the broker")
        self._settings = settings
        self._process = process or Process()
        self._registry = Registry(RoleName.RESULTS)
        self._options = ResultsOptions(stream_retention_seconds=settings.results.streamRetention)
        self._results: Results | None = None

    async def run(self) -> None:
        settings, process = self._settings, self._process
        connection = Connection(
            connection_options_of(settings.nats, name=f"results {process.identity}"),
            rng=process.rng,
            meter=self._registry,
            opener=process.opener,
        )
        async with result_store(settings, name="gpuruntime results") as store:
            self._results = results = self._make(connection, store)
            async with process.role_context(
                settings, self._registry, not_ready=self._not_ready, facts=self._facts
            ) as tasks:
                tasks.create_task(connection.run(), name="broker")
                tasks.create_task(results.run(), name="results")

    async def drain(self) -> None:
        if self._results is not None:
            await self._results.drain()

    def _make(self, connection: Connection, store: ResultStore | None) -> Results:
        process, settings = self._process, self._settings
        return Results(
            connection,
            Names(settings.nats.subjectPrefix),
            self._options,
            None if store is None else self._keeping(store),
            now=process.now,
            rng=process.rng,
            meter=self._registry,
        )

    def _keeping(self, store: ResultStore) -> StoreState:
        options, process = self._options, self._process
        return StoreState(
            store,
            retention_seconds=self._settings.results.retention,
            window_seconds=options.longest_pause_seconds + 2 * options.ack_wait_seconds,
            now=process.now,
            rng=process.rng,
            meter=self._registry,
        )

    def _not_ready(self) -> str:
        return self._results.not_ready if self._results else STARTING

    def _facts(self) -> Mapping[str, object]:
        results = self._results
        facts = {"role": "results", "store": self._settings.results.store.value}
        return facts if results is None else {**facts, "inHand": results.in_hand}
