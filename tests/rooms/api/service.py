"""The API on an embedded cluster, over HTTP; every answer is checked against the document."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from io import BytesIO
from random import Random
from typing import Any, Final

import attrs
from aiohttp import ClientResponse, web
from aiohttp.test_utils import TestClient, TestServer

from gpuruntime.api.app import ApiOptions, AppContext, make_app, no_keys, routes_of
from gpuruntime.api.auth.authentication import Guard, NoAuthentication
from gpuruntime.api.auth.browser_origins import BrowserOrigins
from gpuruntime.api.auth.rate_limits import Limits
from gpuruntime.api.cluster_link import ClusterLink
from gpuruntime.api.console.streams import StreamLimits
from gpuruntime.api.files.limits import FileLimits
from gpuruntime.api.http.body import BodyLimits
from gpuruntime.api.http.routing import Route
from gpuruntime.api.http.server import ConnectionLimits, ServerRunner
from gpuruntime.api.openapi.swagger import with_document
from gpuruntime.api.tickets.issuer import NO_GATEWAY, GatewayOptions
from gpuruntime.api.tickets.session_events import RecordOfUnit, ignore
from gpuruntime.api.views.gpu_usage import GpuUsage
from gpuruntime.audit.auditor import Auditor
from gpuruntime.informer.informer import Informer
from gpuruntime.informer.store import Store, Tables
from gpuruntime.kube.client import Client
from gpuruntime.kube.transport import Transport
from gpuruntime.meter import Meter, NullMeter
from gpuruntime.models.kubernetes.cluster import Node, ResourceQuota
from gpuruntime.models.kubernetes.network import Service as NetworkService
from gpuruntime.models.kubernetes.pod_requests import REQUESTING_PODS, RequestingPod
from gpuruntime.serverless.broker import BrokerLink
from gpuruntime.serverless.calling.service import ServiceContext, ServiceOptions, service_of
from gpuruntime.tickets.keys import KeyRing
from tests.options import SETTINGS, configured
from tests.rooms.api.conformity import Promises
from tests.rooms.operations.cluster import INSTANCE, NAMESPACES, Cluster, Replica, clock, replica
from tests.rooms.serverless.calling.ingress import queue_of

UNITS = "/api/v1/gpu-units"
STOCK_UNITS = "/api/v1/operator/stock-units"
JOBS = "/api/v1/operator/jobs"
POOLS = "/api/v1/operator/stockpools"
STORAGES = "/api/v1/gpu-storages"
SECRETS = "/api/v1/secrets"
INVOCATIONS = "/api/v1/serverless/invocations"
FILE_LIMITS = configured(FileLimits)
LIMITS = configured(Limits)
STREAMS = StreamLimits()
ORIGINS = BrowserOrigins()
WELL = ClusterLink(is_connected=True, is_synced=True)


@attrs.frozen(kw_only=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    bytes: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.bytes)

    @property
    def data(self) -> Any:
        return self.body["data"]

    @property
    def code(self) -> str:
        code: str = self.body["error"]["code"]
        return code

    @property
    def fields(self) -> list[str]:
        """The fields at fault, as the error's details name them."""
        return [detail["field"] for detail in self.body["error"]["details"]]


_PROMISES: Final[dict[tuple[object, ...], Promises]] = {}


class Service:
    def __init__(
        self,
        client: TestClient[web.Request, web.Application],
        replica: Replica,
        nodes: Tables[Node],
        quotas: Tables[ResourceQuota],
        services: Tables[NetworkService],
        pods: Informer[RequestingPod],
        routes: tuple[Route, ...],
        *,
        is_guarded: bool,
    ) -> None:
        self.client = client
        self.routes = routes
        # The models behind the routes are the same in each service.
        self._described: tuple[object, ...] = (
            is_guarded,
            *((each.name, each.method, each.path, each.errors) for each in routes),
        )
        self.replica = replica
        self.nodes = nodes
        self.quotas = quotas
        self.services = services
        self.connection = WELL
        self.why_pods_are_unknown = ""
        self.pods = pods

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        if data is None and body is not None:
            data = json.dumps(body).encode()
        types = {} if data is None else {"Content-Type": "application/json"}
        payload = None if data is None else BytesIO(data)
        headers = {**types, **(headers or {})}
        async with self.client.request(method, path, data=payload, headers=headers) as response:
            return await self._held(method, path, response)

    async def create(self, operation: str = "one", **members: object) -> Answer:
        return await self.call("POST", UNITS, unit_order(operation, **members))

    async def _held(self, method: str, path: str, response: ClientResponse) -> Answer:
        content = await response.read()
        answer = Answer(status=response.status, headers=response.headers, bytes=content)
        is_json = response.content_type == "application/json" and content
        (await self.promises()).assert_kept(
            method,
            path.partition("?")[0],
            answer.status,
            answer.headers,
            answer.body if is_json else content,
        )
        return answer

    async def promises(self) -> Promises:
        """Return what the document promises; services of the same routes share it."""
        if self._described not in _PROMISES:
            async with self.client.get("/openapi.json") as response:
                _PROMISES[self._described] = Promises(await response.json())
        return _PROMISES[self._described]


def unit_order(operation: str = "one", **members: object) -> dict[str, object]:
    return {"operationID": operation, "specName": "g1.1", "image": "python:3.12", **members}


class _Server(TestServer):
    """A test server that leaves handlers running when a caller leaves, as a role's server does."""

    def __init__(self, app: web.Application, *, cancels_handlers: bool) -> None:
        super().__init__(app)
        self._cancels_handlers = cancels_handlers

    async def _make_runner(self, **options: Any) -> web.AppRunner:
        options["handler_cancellation"] = self._cancels_handlers
        limits = configured(ConnectionLimits)
        return ServerRunner(self.app, rng=Random(2), limits=limits, **options)


@asynccontextmanager
async def service(
    cluster: Cluster,
    *,
    meter: Meter = NullMeter(),
    deadline_seconds: float = 65.0,
    cancels_handlers: bool = False,
    files: FileLimits = FILE_LIMITS,
    around: Callable[[Transport], Transport] = lambda inner: inner,
    queue: BrokerLink | None = None,
    now: Callable[[], datetime] = clock,
    guard: Guard | None = None,
    limits: Limits = LIMITS,
    most_requests: int = 4096,
    streams: StreamLimits = STREAMS,
    origins: BrowserOrigins = ORIGINS,
    gateway: GatewayOptions = NO_GATEWAY,
    ticket_keys: Callable[[], KeyRing | None] = no_keys,
    record: RecordOfUnit = ignore,
) -> AsyncIterator[Service]:
    """Yield the API; `around` wraps the transport of its uncached reads.

    Without a queue serverless is off. The test that passes a queue keeps it running.
    """
    nodes: Tables[Node] = Tables({})
    quotas: Tables[ResourceQuota] = Tables({})
    services: Tables[NetworkService] = Tables({})
    async with replica(cluster) as process:
        pods = Informer(process.context.client, REQUESTING_PODS, rng=Random(4))
        backend = AppContext(
            operations=process.inventory,
            caches=process.context.caches,
            nodes=Store(nodes),
            gpus=GpuUsage(
                pods,
                namespaces=NAMESPACES,
                resource=SETTINGS.gpuResource,
                why_unknown=lambda: served.why_pods_are_unknown,
            ),
            quotas=Store(quotas),
            services=Store(services),
            client=Client(around(process.transport)),
            serverless=service_of(
                ServiceContext(
                    client=process.context.client,
                    units=process.units,
                    queue=queue or queue_of("", "off", is_on=False),
                    now=now,
                    rng=Random(3),
                    meter=meter,
                ),
                configured(ServiceOptions, namespace=INSTANCE),
            ),
            connection=lambda: served.connection,
            auditor=Auditor(process.context.caches.snapshot),
            now=now,
            rng=Random(1),
            meter=meter,
            guard=guard or NoAuthentication(),
            ticket_keys=ticket_keys,
            record=record,
        )
        options = ApiOptions(
            version="1.2.3",
            namespaces=NAMESPACES,
            bodies=configured(BodyLimits),
            deadline_seconds=deadline_seconds,
            files=files,
            limits=limits,
            most_requests=most_requests,
            streams=streams,
            origins=origins,
            gateway=gateway,
        )
        app = make_app(backend, options)
        routes = with_document(
            routes_of(backend, options), version="1.2.3", is_guarded=backend.guard.asks
        )
        async with TestClient(_Server(app, cancels_handlers=cancels_handlers)) as client:
            served = Service(
                client,
                process,
                nodes,
                quotas,
                services,
                pods,
                routes,
                is_guarded=backend.guard.asks,
            )
            yield served
