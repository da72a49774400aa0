"""A gateway on loopback, in front of real servers on loopback that stand for units' ports."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Any, Final

import aiohttp
import attrs
import msgspec
from aiohttp import hdrs, web

from gpuruntime.gateway.app import GatewayContext, Handlers, make_gateway_app
from gpuruntime.gateway.connections import Connections
from gpuruntime.gateway.gate import Gate
from gpuruntime.gateway.sessions import Sessions
from gpuruntime.gateway.units import GATEWAY_INDEXES, Units
from gpuruntime.gateway.upstreams import Addresses, Upstreams
from gpuruntime.gateway.wake import Waker
from gpuruntime.informer.store import Store, Tables
from gpuruntime.kube.client import Client
from gpuruntime.meter import NullMeter
from gpuruntime.models.kinds.units import GPUUnit, child_key
from gpuruntime.models.kubernetes.metadata import ObjectMeta, OwnerReference
from gpuruntime.models.kubernetes.network import Service
from gpuruntime.relay.service_addresses import AddressMapping
from gpuruntime.roles.cluster_connection import NoCluster
from gpuruntime.roles.options import app_options_of, connection_options_of, wake_options_of
from gpuruntime.settings.gateway import GatewaySettings
from gpuruntime.settings.schema import Settings
from gpuruntime.tickets.addresses import parse_public_url, slug_of
from tests.rooms.gateway.visitors import NAMESPACE, NOW, RING, unit

DOMAIN: Final = "units.example.com"
CLUSTER_IP: Final = "10.96.0.7"
DEMO: Final = unit("demo")
Server = Callable[[web.Request], Any]


def host_of(of: GPUUnit = DEMO, port: str = "8080") -> str:
    return f"{port}--{slug_of(of.metadata.name, of.metadata.uid)}.{DOMAIN}"


def service_of(of: GPUUnit, *, address: str = CLUSTER_IP, uid: str = "") -> Service:
    """Return the unit's Service, or one of its name that another uid owns."""
    owner = OwnerReference(kind="GPUUnit", uid=uid or of.metadata.uid, controller=True)
    key = child_key(of)
    ports = [{"name": each.name, "port": each.port} for each in of.spec.template.ports]
    return Service(
        metadata=ObjectMeta(name=key.name, namespace=key.namespace, ownerReferences=(owner,)),
        spec=msgspec.Raw(msgspec.json.encode({"clusterIP": address, "ports": ports})),
    )


class World:
    """The cluster as the gateway sees it. `age` is the age of the watch, and `ports` lead on."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._tables: Tables[GPUUnit] = Tables(GATEWAY_INDEXES)
        self._services: Tables[Service] = Tables({})
        self.age = 0.0
        self.now = NOW
        self.places: dict[int, tuple[str, int]] = {}
        self.mapped: list[tuple[str, int]] = []
        root = Settings(gateway=settings)
        address = parse_public_url(settings.publicURL)
        units = Units(Store(self._tables), NAMESPACE)
        gate = Gate(units, lambda: RING, now=lambda: self.now, watch_age=lambda: self.age)
        common: dict[str, Any] = {"now": lambda: self.now, "rng": Random(0)}
        self.connections = Connections(
            connection_options_of(root),
            now=lambda: self.now,
            watch_age=lambda: self.age,
            meter=NullMeter(),
        )
        self.waker = Waker(gate, lambda: RING, wake_options_of(root), **common, meter=NullMeter())
        mapping: AddressMapping = self._mapped
        self.context = GatewayContext(
            address=address,
            options=app_options_of(root),
            gate=gate,
            waker=self.waker,
            sessions=Sessions(gate, lambda: RING, **common, is_secure=address.scheme == "https"),
            connections=self.connections,
            upstreams=Upstreams(
                Addresses(Store(self._services), mapping),
                connect_seconds=settings.time.connect,
            ),
            units=units,
            client=Client(NoCluster()),
            meter=NullMeter(),
        )

    def put(self, changed: GPUUnit) -> None:
        """Apply an event of the watch, and call the handlers as the mirror does."""
        key = changed.metadata.key
        old = self._tables.put(key, changed)
        self._told(old, changed)

    def delete(self, gone: GPUUnit) -> None:
        self._told(self._tables.remove(gone.metadata.key), None)

    def serve(self, of: GPUUnit, service: Service | None = None) -> None:
        made = service or service_of(of)
        self._services.put(made.metadata.key, made)

    def _told(self, old: GPUUnit | None, new: GPUUnit | None) -> None:
        key = (new or old or DEMO).metadata.key
        self.connections.unit_changed(key, old, new)
        self.waker.unit_changed(key, old, new)

    def _mapped(self, host: str, port: int) -> tuple[str, int] | None:
        self.mapped.append((host, port))
        return self.places.get(port)


@attrs.frozen(kw_only=True, slots=True)
class Caller:
    """A caller of the gateway, by aiohttp or by raw bytes."""

    world: World
    session: aiohttp.ClientSession
    port: int

    def request(
        self,
        method: str = "GET",
        path: str = "/",
        *,
        host: str = "",
        headers: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Any:
        given = {hdrs.HOST: host or host_of(), **(headers or {})}
        return self.session.request(
            method,
            f"http://127.0.0.1:{self.port}{path}",
            headers=given,
            allow_redirects=False,
            **options,
        )

    def web_socket(self, path: str = "/ws", *, host: str = "", **options: Any) -> Any:
        headers = {hdrs.HOST: host or host_of(), **options.pop("headers", {})}
        return self.session.ws_connect(
            f"http://127.0.0.1:{self.port}{path}", headers=headers, max_msg_size=0, **options
        )

    async def raw(self, data: bytes) -> bytes:
        """Send bytes, and return all that comes until the gateway closes or is silent."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(data)
        received = bytearray()
        try:
            async with asyncio.timeout(0.5):
                while piece := await reader.read(65_536):
                    received += piece
        except TimeoutError:
            pass
        finally:
            writer.close()
        return bytes(received)


@asynccontextmanager
async def on_loopback(app: web.Application) -> AsyncIterator[int]:
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, auto_decompress=False)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


@asynccontextmanager
async def upstream(serve: Server) -> AsyncIterator[int]:
    """Serve one handler at every path on loopback, and yield the port."""
    app = web.Application(client_max_size=0)
    app.router.add_route(hdrs.METH_ANY, "/{path:.*}", serve)
    async with on_loopback(app) as port:
        yield port


@asynccontextmanager
async def gateway(
    port: int | None, *units: GPUUnit, handlers: Handlers | None = None, **settings: Any
) -> AsyncIterator[Caller]:
    """Run a gateway whose units' port 8080 leads to the server at this port of loopback."""
    given = GatewaySettings(**{"publicURL": f"https://*.{DOMAIN}", **settings})
    world = World(given)
    for each in units or (DEMO,):
        world.put(each)
        world.serve(each)
    if port is not None:
        world.places[8080] = ("127.0.0.1", port)
    app = make_gateway_app(world.context, handlers or Handlers())
    async with on_loopback(app) as own, asyncio.TaskGroup() as tasks:
        pools = tasks.create_task(world.context.upstreams.run())
        jar = aiohttp.DummyCookieJar()
        async with aiohttp.ClientSession(cookie_jar=jar, auto_decompress=False) as session:
            yield Caller(world=world, session=session, port=own)
        pools.cancel()
