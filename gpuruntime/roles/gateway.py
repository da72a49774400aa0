"""The gateway role: callers with tickets reach units; any number of replicas, and no writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

import attrs
import structlog
from aiohttp import web

from gpuruntime.errors import ConfigurationError
from gpuruntime.gateway.activity import activity_app
from gpuruntime.gateway.app import GatewayContext, Handlers, UnitHandler, make_gateway_app
from gpuruntime.gateway.connections import Connections, End
from gpuruntime.gateway.containers.exec_session import ExecSessions
from gpuruntime.gateway.containers.forward_session import ForwardSessions
from gpuruntime.gateway.containers.port_dialer import PortDialer
from gpuruntime.gateway.containers.session import SessionTimes
from gpuruntime.gateway.containers.terminal_page import TerminalAdmission, TerminalPage
from gpuruntime.gateway.containers.verbs import ExecVerb, ForwardVerb
from gpuruntime.gateway.freshness import WINDOW_SECONDS, Freshness
from gpuruntime.gateway.gate import Gate
from gpuruntime.gateway.sessions import Sessions
from gpuruntime.gateway.units import GATEWAY_INDEXES, Units
from gpuruntime.gateway.upstreams import Addresses, Upstreams
from gpuruntime.gateway.wake import Waker
from gpuruntime.kube.client import Client
from gpuruntime.kube.transport import Transport
from gpuruntime.kube.watch import Selection
from gpuruntime.models.kinds.labels import APP_NAME, UNIT_APP
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.network import SERVICES
from gpuruntime.roles.certificates import demand_certificate
from gpuruntime.roles.cluster_role import ClusterContext, cluster_role
from gpuruntime.roles.mirrors import Mirrors, not_synced, waits_for
from gpuruntime.roles.options import (
    app_options_of,
    connection_options_of,
    wake_options_of,
)
from gpuruntime.roles.process import Process
from gpuruntime.roles.role import STOPPING, RoleRunner
from gpuruntime.roles.ssh import demand_ssh, serving_ssh, ssh_server, ssh_verb
from gpuruntime.roles.ticket_keys import TicketKeyFile
from gpuruntime.settings.schema import Settings
from gpuruntime.settings.values import Address
from gpuruntime.telemetry.listener import listen
from gpuruntime.telemetry.metric import RoleName
from gpuruntime.telemetry.metrics import Registry
from gpuruntime.tickets.addresses import GatewayAddress

if TYPE_CHECKING:
    from gpuruntime.gateway.ssh.server import SshServer

# The part of the grace in which connections may end by themselves; the rest closes them.
_PATIENT: Final = 0.8

log = structlog.get_logger()


def gateway_role(
    settings: Settings, *, transport: Transport | None = None, process: Process | None = None
) -> RoleRunner[GatewayParts]:
    address = settings.gateway.address
    if address is None:
        raise ConfigurationError(
            "gateway.publicURL is empty: name the gateway's address for callers, such as "
            "https://*.units.example.com"
        )
    demand_certificate(settings.tls)
    demand_ssh(settings)
    registry = Registry(RoleName.GATEWAY)
    keys = TicketKeyFile(settings.gateway.keyFile, registry)

    @asynccontextmanager
    async def opened(context: ClusterContext) -> AsyncIterator[GatewayParts]:
        yield GatewayParts(context, address, keys)

    return cluster_role(registry, settings, opened, transport=transport, process=process)


class GatewayParts:
    def __init__(
        self, context: ClusterContext, address: GatewayAddress, keys: TicketKeyFile
    ) -> None:
        settings, process, registry = context.settings, context.process, context.registry
        self._settings = settings
        self._process = process
        self._keys = keys
        self._public_address = address
        self._registry = registry
        self._stop = asyncio.Event()
        self._drained = asyncio.Event()
        self._client = Client(context.transport, meter=registry)
        self.mirrors = Mirrors(context, self._client)
        place = settings.namespaces.instance
        of_units = Selection(namespace=place)
        units = self.mirrors.add(
            "units", GPU_UNITS, of_units, GATEWAY_INDEXES, window_seconds=WINDOW_SECONDS
        )
        self._services = self.mirrors.add(
            "services", SERVICES, attrs.evolve(of_units, label_selector=f"{APP_NAME}={UNIT_APP}")
        )
        self._units = Units(units.store, place)
        self._freshness = Freshness(self._client, place, lambda: units.silent_seconds)
        self.connections = Connections(
            connection_options_of(settings),
            now=process.now,
            watch_age=self._freshness.age_seconds,
            meter=registry,
        )
        self._gate = Gate(
            self._units, keys.ring, now=process.now, watch_age=self._freshness.age_seconds
        )
        self._waker = Waker(
            self._gate,
            keys.ring,
            wake_options_of(settings),
            now=process.now,
            rng=process.rng,
            meter=registry,
        )
        self._upstreams = Upstreams(
            Addresses(self._services.store, process.map_address),
            connect_seconds=settings.gateway.time.connect,
        )
        units.add_handler(self.connections.unit_changed)
        units.add_handler(self._waker.unit_changed)
        registry.gauge_from("gateway_connections", self.connections.open_by_kind)
        registry.gauge_from(
            "gateway_watch_age_seconds", lambda: {(): self._freshness.age_seconds()}
        )
        # The addresses of the gateway, of its activity and of SSH, once they listen.
        self.address = ""
        self.activity = ""
        self.ssh_address = ""
        self.listening = asyncio.Event()

    @property
    def not_ready(self) -> str:
        if self._stop.is_set():
            return STOPPING
        unsynced = not_synced(self.mirrors.informers)
        return waits_for(unsynced if self._keys.ring() else [*unsynced, "keys of tickets"])

    @property
    def facts(self) -> Mapping[str, object]:
        return {
            "connections": len(self.connections),
            "watchAge": round(self._freshness.age_seconds(), 1),
            **{name: len(each.store) for name, each in self.mirrors.informers.items()},
        }

    async def run(self, tasks: asyncio.TaskGroup) -> None:
        """Serve until the role drains."""
        tasks.create_task(self._keys.run(), name="ticket keys")
        self.mirrors.start(tasks)
        tasks.create_task(self._freshness.run(), name="freshness")
        tasks.create_task(self.connections.run(), name="connections")
        tasks.create_task(self._upstreams.run(), name="upstreams")
        context = self._context()
        dialer = PortDialer(
            context.client,
            context.upstreams.addresses.of,
            connect_seconds=self._settings.gateway.time.connect,
        )
        ssh = ssh_server(self._settings, context, dialer, self._process.now)
        app = make_gateway_app(context, self._handlers(context, dialer, ssh))
        serving = attrs.evolve(self._settings, listen=self._settings.gateway.listen)
        async with (
            self._activity() as activity,
            self._process.serving(app, serving, serving.gateway.bytes.head) as address,
            serving_ssh(self._settings, ssh) as ssh_address,
        ):
            self.ssh_address = ssh_address
            self.activity, self.address = activity, address
            self.listening.set()
            log.info("gateway listening", address=address, activity=activity, ssh=ssh_address)
            await self._stop.wait()
        self._drained.set()

    async def drain(self) -> None:
        """Open no more connections; those that are left close before the grace is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.shutdownGrace * _PATIENT):
                await self.connections.drain()
        self.connections.end_all(End.STOPPING)
        self._stop.set()
        await self._drained.wait()

    async def serving(self) -> None:
        """Wait until the gateway listens and its mirrors hold what requests need."""
        await self.listening.wait()
        for informer in self.mirrors.informers.values():
            await informer.synced.wait()

    def _context(self) -> GatewayContext:
        process, keys = self._process, self._keys
        sessions = Sessions(
            self._gate,
            keys.ring,
            now=process.now,
            rng=process.rng,
            is_secure=self._public_address.scheme == "https",
        )
        return GatewayContext(
            address=self._public_address,
            options=app_options_of(self._settings),
            gate=self._gate,
            waker=self._waker,
            sessions=sessions,
            upstreams=self._upstreams,
            connections=self.connections,
            units=self._units,
            client=self._client,
            meter=self._registry,
        )

    def _handlers(
        self, context: GatewayContext, dialer: PortDialer, ssh: SshServer | None
    ) -> Handlers:
        """Return the handlers that reach into units, without commands if `gateway.exec` is off."""
        settings = self._settings.gateway
        forwards = ForwardSessions(
            dialer, context.connections, SessionTimes(idle_seconds=settings.time.idle)
        )
        forward = ForwardVerb(context.waker, forwards, has_exec=settings.exec).serve
        if not settings.exec:
            return Handlers(verbs={"forward": forward})
        sessions = ExecSessions(
            context.client,
            context.connections,
            SessionTimes(idle_seconds=settings.time.execIdle),
        )
        admission = TerminalAdmission(
            context.waker, context.address, has_plain_hosts=settings.plainHosts
        )
        verbs: dict[str, UnitHandler] = {
            "exec": ExecVerb(context.waker, sessions).serve,
            "forward": forward,
        }
        if ssh is not None:
            verbs["ssh"] = ssh_verb(context, ssh)
        return Handlers(
            verbs=verbs,
            terminal=TerminalPage(sessions, admission).serve,
        )

    @asynccontextmanager
    async def _activity(self) -> AsyncIterator[str]:
        """Serve the activity of callers to the manager, and yield the address."""
        given: Address = self._settings.gateway.activityListen
        app: web.Application = activity_app(self.connections, self._process.identity)
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await runner.setup()
        try:
            port = await listen(
                runner, host=given.host, port=given.port, purpose="gateway.activityListen"
            )
            yield f"http://{Address(given.host or '127.0.0.1', port)}"
        finally:
            await runner.cleanup()
