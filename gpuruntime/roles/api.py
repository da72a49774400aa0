"""The api role: REST over caches and guarded writes; any number of replicas, no reconciler."""

import asyncio
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, Final

import attrs
import structlog
from aiohttp import web

from gpuruntime.api.app import ApiOptions, AppContext, make_app
from gpuruntime.api.auth.authentication import Guard, NoAuthentication
from gpuruntime.api.auth.browser_origins import BrowserOrigins
from gpuruntime.api.auth.kubernetes import KubernetesGuard
from gpuruntime.api.auth.tokens import TokenGuard
from gpuruntime.api.cluster_link import ClusterLink
from gpuruntime.audit.auditor import Auditor
from gpuruntime.errors import ConfigurationError
from gpuruntime.informer.informer import Informer
from gpuruntime.kube.client import Client
from gpuruntime.kube.transport import Transport
from gpuruntime.kube.watch import EVERYTHING, Selection
from gpuruntime.meter import Meter
from gpuruntime.models.kinds.labels import APP_NAME, STORAGE_APP
from gpuruntime.models.kinds.pools import STOCK_POOLS
from gpuruntime.models.kinds.storages import GPU_STORAGES
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.cluster import NODES, RESOURCE_QUOTAS
from gpuruntime.models.kubernetes.network import SERVICES
from gpuruntime.operations.context import OperationContext
from gpuruntime.operations.lookup.caches import (
    POOL_INDEXES,
    STOCK_INDEXES,
    STORAGE_INDEXES,
    UNIT_INDEXES,
    Caches,
)
from gpuruntime.operations.operations import operations_of
from gpuruntime.operations.options import Options
from gpuruntime.roles.certificates import demand_certificate
from gpuruntime.roles.cluster_connection import transport_of
from gpuruntime.roles.mirrors import Mirror, is_away, is_behind, mirrors, waits_for
from gpuruntime.roles.options import (
    body_limits_of,
    caller_limits_of,
    file_limits_of,
    namespaces_of,
)
from gpuruntime.roles.process import Process, queue_of
from gpuruntime.roles.result_store import result_store
from gpuruntime.roles.token_file import TokenFile
from gpuruntime.serverless.calling.service import (
    FunctionService,
    ServiceContext,
    ServiceOptions,
    service_of,
)
from gpuruntime.serverless.results.store import ResultReader
from gpuruntime.settings.access import AuthMode
from gpuruntime.settings.schema import KubernetesMode, Settings
from gpuruntime.telemetry.metric import RoleName
from gpuruntime.telemetry.metrics import Registry

log = structlog.get_logger()

STOPPING: Final = "stopping"
# The mirrors that requests need. Nodes and quotas are only reported; files wait for services.
NEEDED: Final = ("stock", "units", "pools", "storages")
# The state of a healthy replica, by whether the queue is connected.
WELL: Final = {
    is_there: ClusterLink(is_connected=True, is_synced=True, is_queue_connected=is_there)
    for is_there in (False, True)
}


class Api:
    def __init__(
        self,
        settings: Settings,
        *,
        transport: Transport | None = None,
        process: Process | None = None,
    ) -> None:
        """A given transport belongs to the caller: it is neither probed nor closed."""
        _refuse_open_listener(settings)
        demand_certificate(settings.tls)
        self._settings = settings
        self._transport = transport
        self._process = process or Process()
        self._registry = Registry(RoleName.API)
        self._token_file = _token_file(settings, self._registry)
        self._informers: dict[str, Informer[Any]] = {}
        self._stop = asyncio.Event()
        self._drained = asyncio.Event()
        self._queue = queue_of(self._settings.nats, self._process, self._registry, role="api")
        self._is_enabled = settings.kubernetes.mode is not KubernetesMode.OFF
        if self._is_enabled:
            self._registry.gauge_from("kubernetes_connected", self._connected_series)
        # The address of the listener, once it listens.
        self.address = ""
        self.listening = asyncio.Event()

    async def run(self) -> None:
        async with transport_of(self._transport, self._settings.kubernetes) as transport:
            await self._serve(transport)

    async def serving(self) -> None:
        """Wait until the api listens and its caches hold what requests need."""
        await self.listening.wait()
        for informer in self._needed():
            await informer.synced.wait()

    async def drain(self) -> None:
        """Accept no new requests. Wait for those in progress and the operations behind them."""
        self._stop.set()
        await self._drained.wait()

    async def _serve(self, transport: Transport) -> None:
        client = Client(transport, meter=self._registry)
        self._informers = self._make_informers(client)
        async with (
            result_store(self._settings, name="gpuruntime api") as results,
            self._process.role_context(
                self._settings, self._registry, not_ready=self._not_ready, facts=self._facts
            ) as tasks,
        ):
            async with asyncio.TaskGroup() as operations:
                caches = self._caches()
                auditor = Auditor(caches.snapshot, is_current=self._is_current, is_silent=True)
                ingress = self._ingress(client, caches, results)
                app = self._app(client, operations, caches, auditor, ingress)
                if self._token_file is not None:
                    tasks.create_task(self._token_file.run(), name="token file")
                if self._settings.nats.url:
                    tasks.create_task(ingress.run(), name="serverless")
                if self._is_enabled:
                    for name, informer in self._informers.items():
                        tasks.create_task(informer.run(), name=f"inform {name}")
                    tasks.create_task(auditor.run(), name="audit")
                await self._answer(app)
            self._drained.set()

    async def _answer(self, app: web.Application) -> None:
        """Serve until the role drains. Requests in progress then have the grace to end."""
        async with self._process.serving(app, self._settings) as address:
            self.address = address
            self.listening.set()
            log.info("listening", address=address)
            await self._stop.wait()

    def _caches(self) -> Caches:
        return Caches(
            stock=self._informers["stock"],
            units=self._informers["units"],
            pools=self._informers["pools"],
            storages=self._informers["storages"],
        )

    def _ingress(
        self, client: Client, caches: Caches, results: ResultReader | None
    ) -> FunctionService:
        context = ServiceContext(
            client=client,
            units=caches.units,
            queue=self._queue,
            now=self._process.now,
            rng=self._process.rng,
            results=results,
            meter=self._registry,
        )
        options = ServiceOptions(
            namespace=self._settings.namespaces.instance,
            retention_seconds=self._settings.results.streamRetention,
        )
        return service_of(context, options)

    def _app(
        self,
        client: Client,
        operations: asyncio.TaskGroup,
        caches: Caches,
        auditor: Auditor,
        ingress: FunctionService,
    ) -> web.Application:
        names = namespaces_of(self._settings)
        now, rng = self._process.now, self._process.rng
        context = OperationContext(
            client=client,
            caches=caches,
            options=Options(namespaces=names, retention_seconds=self._settings.operationRetention),
            now=now,
            rng=rng,
            meter=self._registry,
        )
        backend = AppContext(
            operations=operations_of(context, operations),
            caches=caches,
            nodes=self._informers["nodes"].store,
            quotas=self._informers["quotas"].store,
            services=self._informers["services"].store,
            client=client,
            serverless=ingress,
            connection=self._connection,
            auditor=auditor,
            now=now,
            rng=rng,
            meter=self._registry,
            map_address=self._process.map_address,
            guard=self._guard(client),
        )
        options = ApiOptions(
            version=version("gpuruntime"),
            namespaces=names,
            gpu_resource=self._settings.gpuResource,
            files=file_limits_of(self._settings),
            limits=caller_limits_of(self._settings),
            bodies=body_limits_of(self._settings),
            most_requests=self._settings.connections.mostRequests,
            origins=BrowserOrigins(is_local=_is_for_this_machine(self._settings)),
        )
        return make_app(backend, options)

    def _guard(self, client: Client) -> Guard:
        if self._token_file is not None:
            return TokenGuard(self._token_file.principals)
        auth = self._settings.auth
        if auth.mode is AuthMode.KUBERNETES:
            names = namespaces_of(self._settings)
            return KubernetesGuard(client, audience=auth.audience, namespaces=names)
        return NoAuthentication()

    def _make_informers(self, client: Client) -> dict[str, Informer[Any]]:
        names = self._settings.namespaces
        stock, instance = Selection(namespace=names.stock), Selection(namespace=names.instance)
        of_storages = attrs.evolve(instance, label_selector=f"{APP_NAME}={STORAGE_APP}")
        table: tuple[Mirror, ...] = (
            ("stock", GPU_UNITS, stock, STOCK_INDEXES),
            ("units", GPU_UNITS, instance, UNIT_INDEXES),
            ("pools", STOCK_POOLS, stock, POOL_INDEXES),
            ("storages", GPU_STORAGES, instance, STORAGE_INDEXES),
            ("nodes", NODES, EVERYTHING, None),
            ("quotas", RESOURCE_QUOTAS, instance, None),
            ("services", SERVICES, of_storages, None),
        )
        return mirrors(client, table, self._process, self._registry)

    def _connection(self) -> ClusterLink:
        """Return the state of cluster and queue. Every request asks for it.

        While one mirror receives, another that waits for its retry says nothing about the
        connection. Only its content may become too old, which counts as not synced.
        """
        if self._is_well():
            return WELL[not self._queue.problem]
        needed = sorted(self._needed(), key=lambda each: each.failing_seconds, reverse=True)
        errors = [each.error for each in needed if each.error is not None]
        has_received = any(informer.synced.is_set() for informer in self._informers.values())
        return ClusterLink(
            is_enabled=self._is_enabled,
            is_connected=(
                self._is_enabled and not is_away(needed) and (has_received or bool(errors))
            ),
            is_synced=not self._unsynced() and not any(map(is_behind, needed)),
            is_queue_connected=not self._queue.problem,
            is_stopping=self._stop.is_set(),
            error=str(errors[0]) if errors else "",
        )

    def _is_well(self) -> bool:
        return (
            self._is_enabled
            and not self._stop.is_set()
            and bool(self._informers)
            and all(each.synced.is_set() and each.error is None for each in self._needed())
        )

    def _connected_series(self) -> Mapping[tuple[str, ...], float]:
        return {(): float(self._connection().is_connected)}

    def _needed(self) -> list[Informer[Any]]:
        return [self._informers[name] for name in NEEDED if self._informers]

    def _is_current(self) -> bool:
        connection = self._connection()
        return connection.is_serving and not connection.error

    def _unsynced(self) -> list[str]:
        informers = self._informers
        return [name for name in NEEDED if not informers or not informers[name].synced.is_set()]

    def _not_ready(self) -> str:
        if self._stop.is_set():
            return STOPPING
        unsynced = self._unsynced() if self._is_enabled else []
        return waits_for(unsynced)

    def _facts(self) -> Mapping[str, object]:
        connection = self._connection()
        return {
            "role": "api",
            "connected": connection.is_connected,
            "synced": connection.is_synced,
            "queue": connection.is_queue_connected,
            **{name: len(informer.store) for name, informer in self._informers.items()},
        }


def _token_file(settings: Settings, meter: Meter) -> TokenFile | None:
    is_token = settings.auth.mode is AuthMode.TOKEN
    return TokenFile(settings.auth.tokenFile, meter) if is_token else None


def _is_for_this_machine(settings: Settings) -> bool:
    """Return whether only this machine may call: no authentication, and no consent to others."""
    auth = settings.auth
    return auth.mode is AuthMode.NONE and not auth.allowUnauthenticated


def _refuse_open_listener(settings: Settings) -> None:
    auth = settings.auth
    is_off = settings.kubernetes.mode is KubernetesMode.OFF
    if auth.mode is AuthMode.KUBERNETES and is_off:
        raise ConfigurationError(
            "auth.mode: kubernetes needs the cluster, but kubernetes.mode is off: "
            "set it to auto or required, or set auth.mode: token"
        )
    is_open = auth.mode is AuthMode.NONE and not auth.allowUnauthenticated
    if is_open and not settings.listen.is_loopback:
        raise ConfigurationError(
            f"listen: {settings.listen} is reachable from other machines, but auth.mode is none: "
            "listen on 127.0.0.1, or set auth.allowUnauthenticated: true if that is intended"
        )
