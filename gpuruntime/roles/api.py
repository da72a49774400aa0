"""The api role: REST over caches and guarded writes; any number of replicas, no reconciler."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version
from typing import Final

import attrs
import structlog
from aiohttp import web

from gpuruntime.api.app import ApiOptions, AppContext, make_app, no_keys
from gpuruntime.api.auth.authentication import Guard, NoAuthentication
from gpuruntime.api.auth.browser_origins import BrowserOrigins
from gpuruntime.api.auth.kubernetes import KubernetesGuard
from gpuruntime.api.auth.tokens import TokenGuard
from gpuruntime.api.cluster_link import ClusterLink
from gpuruntime.api.tickets.session_events import COMPONENT, SECONDS_PER_EVENT
from gpuruntime.api.views.cluster_summary import gpu_rows, node_gpu_rows
from gpuruntime.api.views.gpu_usage import GpuUsage
from gpuruntime.audit.auditor import Auditor
from gpuruntime.errors import ConfigurationError
from gpuruntime.kube.client import Client
from gpuruntime.kube.events import EventRecorder, record_note
from gpuruntime.kube.transport import Transport
from gpuruntime.kube.watch import EVERYTHING, Selection
from gpuruntime.meter import Meter
from gpuruntime.models.kinds.labels import APP_NAME, STORAGE_APP
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.cluster import NODES, RESOURCE_QUOTAS
from gpuruntime.models.kubernetes.network import SERVICES
from gpuruntime.models.kubernetes.pod_requests import PLACED, REQUESTING_PODS
from gpuruntime.operations.lookup.caches import (
    UNIT_INDEXES,
)
from gpuruntime.operations.operations import operations_of
from gpuruntime.roles.certificates import demand_certificate
from gpuruntime.roles.cluster_role import ClusterContext, cluster_role
from gpuruntime.roles.mirrors import Mirrors, is_away, is_behind, not_synced, waits_for
from gpuruntime.roles.options import (
    API_HEAD_BYTES,
    body_limits_of,
    caller_limits_of,
    file_limits_of,
    gateway_options_of,
    namespaces_of,
    service_options_of,
)
from gpuruntime.roles.process import Process, queue_of
from gpuruntime.roles.result_store import result_store
from gpuruntime.roles.role import STOPPING, RoleRunner
from gpuruntime.roles.ticket_keys import TicketKeyFile
from gpuruntime.roles.token_file import TokenFile
from gpuruntime.serverless.calling.service import (
    FunctionService,
    ServiceContext,
    service_of,
)
from gpuruntime.serverless.results.store import ResultReader
from gpuruntime.settings.access import AuthMode
from gpuruntime.settings.schema import KubernetesMode, Settings
from gpuruntime.telemetry.metric import RoleName
from gpuruntime.telemetry.metrics import Registry

log = structlog.get_logger()

# The state of a healthy replica, by whether the queue is connected.
WELL: Final = {
    is_there: ClusterLink(is_connected=True, is_synced=True, is_queue_connected=is_there)
    for is_there in (False, True)
}


def api_role(
    settings: Settings, *, transport: Transport | None = None, process: Process | None = None
) -> "RoleRunner[ApiParts]":
    _refuse_open_listener(settings)
    demand_certificate(settings.tls)
    registry = Registry(RoleName.API)
    files = KeyFiles(tokens=_token_file(settings, registry), keys=_ticket_keys(settings, registry))

    @asynccontextmanager
    async def opened(context: ClusterContext) -> AsyncIterator[ApiParts]:
        async with result_store(settings, name="gpuruntime api") as results:
            yield ApiParts(context, results, files)

    return cluster_role(registry, settings, opened, transport=transport, process=process)


@attrs.frozen(kw_only=True, slots=True)
class KeyFiles:
    """The files that the api follows; None without mode token, and without a gateway."""

    tokens: TokenFile | None
    keys: TicketKeyFile | None


class ApiParts:
    def __init__(
        self, context: ClusterContext, results: ResultReader | None, files: KeyFiles
    ) -> None:
        settings = context.settings
        self._context = context
        self._settings = settings
        self._token_file = files.tokens
        self._ticket_keys = files.keys
        self._stop = asyncio.Event()
        self._drained = asyncio.Event()
        self._client = Client(context.transport, meter=context.registry)
        self._queue = queue_of(settings.nats, context.process, context.registry)
        self.mirrors = Mirrors(context, self._client)
        self._caches = self.mirrors.add_caches(UNIT_INDEXES)
        # The mirrors that requests need. Nodes, quotas and Pods are only reported; files wait for
        # services.
        self._needed = dict(self.mirrors.informers)
        instance = Selection(namespace=settings.namespaces.instance)
        of_storages = attrs.evolve(instance, label_selector=f"{APP_NAME}={STORAGE_APP}")
        self._nodes = self.mirrors.add("nodes", NODES, EVERYTHING)
        self._quotas = self.mirrors.add("quotas", RESOURCE_QUOTAS, instance)
        self._services = self.mirrors.add("services", SERVICES, of_storages)
        self._pods = self.mirrors.add("pods", REQUESTING_PODS, Selection(field_selector=PLACED))
        self._gpus = GpuUsage(
            self._pods,
            namespaces=namespaces_of(settings),
            resource=settings.gpuResource,
            why_unknown=self._why_pods_are_unknown,
        )
        self._recorder = EventRecorder(
            self._client,
            component=COMPONENT,
            now=context.process.now,
            rng=context.process.rng,
            meter=context.registry,
            once_seconds=SECONDS_PER_EVENT,
        )
        self._ingress = self._make_ingress(results)
        self._auditor = Auditor(self._caches.snapshot, is_current=self._is_current, is_silent=True)
        self._is_enabled = settings.kubernetes.mode is not KubernetesMode.OFF
        if self._is_enabled:
            context.registry.gauge_from("kubernetes_connected", self._connected_series)
            nodes, gpus = self._nodes.store, self._gpus
            context.registry.gauge_from("node_gpus", lambda: node_gpu_rows(nodes, gpus))
            context.registry.gauge_from("gpus", lambda: gpu_rows(nodes, gpus))
        # The address of the listener, once it listens.
        self.address = ""
        self.listening = asyncio.Event()

    @property
    def not_ready(self) -> str:
        if self._stop.is_set():
            return STOPPING
        return waits_for(not_synced(self._needed)) if self._is_enabled else ""

    @property
    def facts(self) -> Mapping[str, object]:
        connection = self._connection()
        return {
            "connected": connection.is_connected,
            "synced": connection.is_synced,
            "queue": connection.is_queue_connected,
            **{name: len(each.store) for name, each in self.mirrors.informers.items()},
        }

    async def run(self, tasks: asyncio.TaskGroup) -> None:
        """Serve until the role drains. Operations in progress end before the caches do."""
        async with asyncio.TaskGroup() as operations:
            app = self._app(operations)
            if self._token_file is not None:
                tasks.create_task(self._token_file.run(), name="token file")
            if self._ticket_keys is not None:
                tasks.create_task(self._ticket_keys.run(), name="ticket keys")
            if self._settings.nats.url:
                tasks.create_task(self._ingress.run(), name="serverless")
            if self._is_enabled:
                self.mirrors.start(tasks)
                tasks.create_task(self._auditor.run(), name="audit")
                tasks.create_task(self._recorder.run(), name="events")
            await self._answer(app)
        self._drained.set()

    async def drain(self) -> None:
        """Accept no new requests. Wait for those in progress and the operations behind them."""
        self._stop.set()
        await self._drained.wait()

    async def serving(self) -> None:
        """Wait until the api listens and its caches hold what requests need."""
        await self.listening.wait()
        for informer in self._needed.values():
            await informer.synced.wait()

    async def _answer(self, app: web.Application) -> None:
        """Serve until the role drains. Requests in progress then have the grace to end."""
        async with self._context.process.serving(app, self._settings, API_HEAD_BYTES) as address:
            self.address = address
            self.listening.set()
            log.info("listening", address=address)
            await self._stop.wait()

    def _make_ingress(self, results: ResultReader | None) -> FunctionService:
        context, settings = self._context, self._settings
        return service_of(
            ServiceContext(
                client=self._client,
                units=self._caches.units,
                queue=self._queue,
                now=context.process.now,
                rng=context.process.rng,
                results=results,
                meter=context.registry,
            ),
            service_options_of(settings),
        )

    def _app(self, operations: asyncio.TaskGroup) -> web.Application:
        settings, process = self._settings, self._context.process
        context = self._context.operation_context(self._client, self._caches)
        backend = AppContext(
            operations=operations_of(context, operations),
            caches=self._caches,
            nodes=self._nodes.store,
            gpus=self._gpus,
            quotas=self._quotas.store,
            services=self._services.store,
            client=self._client,
            serverless=self._ingress,
            connection=self._connection,
            auditor=self._auditor,
            now=process.now,
            rng=process.rng,
            meter=self._context.registry,
            map_address=process.map_address,
            guard=self._guard(),
            ticket_keys=self._ticket_keys.ring if self._ticket_keys else no_keys,
            record=partial(record_note, self._recorder, GPU_UNITS),
        )
        options = ApiOptions(
            version=version("gpuruntime"),
            namespaces=context.options.namespaces,
            files=file_limits_of(settings),
            limits=caller_limits_of(settings),
            bodies=body_limits_of(settings),
            most_requests=settings.connections.mostRequests,
            origins=BrowserOrigins(is_local=_is_for_this_machine(settings)),
            gateway=gateway_options_of(settings),
        )
        return make_app(backend, options)

    def _guard(self) -> Guard:
        if self._token_file is not None:
            return TokenGuard(self._token_file.principals)
        auth = self._settings.auth
        if auth.mode is AuthMode.KUBERNETES:
            names = namespaces_of(self._settings)
            return KubernetesGuard(self._client, audience=auth.audience, namespaces=names)
        return NoAuthentication()

    def _connection(self) -> ClusterLink:
        """Return the state of cluster and queue. Every request asks for it.

        While one mirror receives, another that waits for its retry says nothing about the
        connection. Only its content may become too old, which counts as not synced.
        """
        if self._is_well():
            return WELL[not self._queue.problem]
        needed = sorted(self._needed.values(), key=lambda each: each.failing_seconds, reverse=True)
        errors = [each.error for each in needed if each.error is not None]
        has_received = any(each.synced.is_set() for each in self.mirrors.informers.values())
        return ClusterLink(
            is_enabled=self._is_enabled,
            is_connected=(
                self._is_enabled and not is_away(needed) and (has_received or bool(errors))
            ),
            is_synced=not not_synced(self._needed) and not any(map(is_behind, needed)),
            is_queue_connected=not self._queue.problem,
            is_stopping=self._stop.is_set(),
            error=str(errors[0]) if errors else "",
        )

    def _is_well(self) -> bool:
        return (
            self._is_enabled
            and not self._stop.is_set()
            and all(each.synced.is_set() and each.error is None for each in self._needed.values())
        )

    def _connected_series(self) -> Mapping[tuple[str, ...], float]:
        return {(): float(self._connection().is_connected)}

    def _why_pods_are_unknown(self) -> str:
        """Return why held and free GPUs are unknown, such as a missing right, or nothing."""
        if self._pods.synced.is_set() and not is_behind(self._pods):
            return ""
        error = self._pods.error
        return f"the Pods of the cluster are not known: {error or 'not listed yet'}"

    def _is_current(self) -> bool:
        connection = self._connection()
        return connection.is_serving and not connection.error


def _token_file(settings: Settings, meter: Meter) -> TokenFile | None:
    is_token = settings.auth.mode is AuthMode.TOKEN
    return TokenFile(settings.auth.tokenFile, meter) if is_token else None


def _ticket_keys(settings: Settings, meter: Meter) -> TicketKeyFile | None:
    gateway = settings.gateway
    return TicketKeyFile(gateway.keyFile, meter) if gateway.publicURL else None


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
