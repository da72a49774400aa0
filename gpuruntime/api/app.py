"""The application of the REST API: the routes put together over what a role hands in.

It reads no settings and starts nothing. The role serves it, and drains by ending first the server
and then the operations behind it.
"""

from collections.abc import Callable
from datetime import datetime
from random import Random
from typing import Final

import attrs
from aiohttp import web

from gpuruntime.api.auth.authentication import Guard, NoAuthentication
from gpuruntime.api.auth.browser_origins import BrowserOrigins
from gpuruntime.api.auth.rate_limits import Limits, RateLimits
from gpuruntime.api.cluster_link import ClusterLink
from gpuruntime.api.console.routes import live_routes
from gpuruntime.api.console.static_files import console_files
from gpuruntime.api.console.streams import Changes, StreamLimits, Streams
from gpuruntime.api.files.file_servers import FileServers
from gpuruntime.api.files.limits import FileLimits
from gpuruntime.api.files.relay import FileRelay
from gpuruntime.api.http.body import Bodies, BodyLimits
from gpuruntime.api.http.in_flight import InFlightLimit
from gpuruntime.api.http.layers import (
    LayerContext,
    add_headers,
    defer_continue,
    handler_of,
    unknown_paths,
)
from gpuruntime.api.http.routing import Route
from gpuruntime.api.openapi.swagger import with_document
from gpuruntime.api.routes.audit import audit_route
from gpuruntime.api.routes.dead_letters import dead_letter_routes
from gpuruntime.api.routes.files import file_routes
from gpuruntime.api.routes.flavours import flavour_route
from gpuruntime.api.routes.functions import function_routes
from gpuruntime.api.routes.invocations import invocation_routes
from gpuruntime.api.routes.logs import log_route
from gpuruntime.api.routes.secrets import secret_routes
from gpuruntime.api.routes.status import status_routes
from gpuruntime.api.routes.stock import stock_routes
from gpuruntime.api.routes.storages import storage_routes
from gpuruntime.api.routes.tickets import ticket_routes
from gpuruntime.api.routes.units import unit_routes
from gpuruntime.api.tickets.issuer import NO_GATEWAY, GatewayOptions, TicketIssuer
from gpuruntime.api.tickets.session_events import RecordOfUnit, ignore
from gpuruntime.api.tickets.wake_guard import WakeGuard
from gpuruntime.api.views.cluster_summary import ClusterSummary
from gpuruntime.api.views.flavours import Flavours
from gpuruntime.api.views.gpu_usage import GpuUsage
from gpuruntime.api.views.health import Health
from gpuruntime.api.views.unit_events import UnitEvents
from gpuruntime.api.views.unit_index import UnitIndex
from gpuruntime.api.views.unit_logs import UnitLogs
from gpuruntime.audit.auditor import Auditor
from gpuruntime.kube.client import Client
from gpuruntime.meter import Meter, NullMeter
from gpuruntime.models.kubernetes.cluster import Node, ResourceQuota
from gpuruntime.models.kubernetes.network import Service
from gpuruntime.operations.lookup.caches import Caches, Store
from gpuruntime.operations.lookup.counts import (
    Counts,
    active_state_of,
    running_count_of,
    spec_name_of,
    stock_state_of,
)
from gpuruntime.operations.operations import Operations
from gpuruntime.operations.options import Namespaces
from gpuruntime.relay.service_addresses import AddressMapping, same_address
from gpuruntime.serverless.calling.service import FunctionService
from gpuruntime.tickets.keys import KeyRing

BODY_LIMIT: Final = 1024 * 1024


@attrs.frozen(kw_only=True, slots=True)
class ApiOptions:
    """Options of the API. The deadline exceeds the use cases' own, so that theirs report the
    cause.
    """

    version: str
    namespaces: Namespaces
    deadline_seconds: float = 65.0
    files: FileLimits
    limits: Limits
    bodies: BodyLimits
    most_requests: int
    streams: StreamLimits = StreamLimits()
    origins: BrowserOrigins = BrowserOrigins()
    gateway: GatewayOptions = NO_GATEWAY


def no_keys() -> KeyRing | None:
    """Return None: without a gateway there are no tickets."""
    return None


@attrs.frozen(kw_only=True, slots=True)
class AppContext:
    """Dependencies of the routes. All stores but the caches may still be empty when requests come.

    `services` are those of storages' file servers, and `map_address` leads to their addresses.
    """

    operations: Operations
    caches: Caches
    nodes: Store[Node]
    gpus: GpuUsage
    quotas: Store[ResourceQuota]
    services: Store[Service]
    client: Client
    serverless: FunctionService
    connection: Callable[[], ClusterLink]
    auditor: Auditor
    now: Callable[[], datetime]
    rng: Random
    meter: Meter = NullMeter()
    map_address: AddressMapping = same_address
    guard: Guard = attrs.field(factory=NoAuthentication)
    ticket_keys: Callable[[], KeyRing | None] = no_keys
    record: RecordOfUnit = ignore


@attrs.frozen(kw_only=True, slots=True)
class SortedIndexes:
    """Indexes and counts that follow the caches, shared by all routes that show them."""

    index: UnitIndex
    fleet: ClusterSummary


def make_app(context: AppContext, options: ApiOptions) -> web.Application:
    layered = LayerContext(
        guard=context.guard,
        rate_limits=RateLimits(options.limits),
        in_flight=InFlightLimit(options.most_requests),
        origins=options.origins,
        bodies=Bodies(options.bodies),
        connection=context.connection,
        rng=context.rng,
        meter=context.meter,
        body_limit=BODY_LIMIT,
        deadline_seconds=options.deadline_seconds,
    )
    app = web.Application(client_max_size=BODY_LIMIT, middlewares=(unknown_paths(layered),))
    app.on_response_prepare.append(add_headers)
    indexes = indexes_of(context)
    described = with_document(
        routes_of(context, options, indexes),
        version=options.version,
        is_guarded=context.guard.asks,
    )
    streams = Streams(Changes(context.caches), context.connection, options.streams)
    app.on_shutdown.append(streams.end)
    console = (*console_files(), *_live_routes(context, indexes, streams))
    for route in (*described, *console):
        handler = handler_of(route, layered)
        for method in _methods_of(route):
            app.router.add_route(
                method, route.pattern or route.path, handler, expect_handler=defer_continue
            )
    return app


def _methods_of(route: Route) -> tuple[str, ...]:
    """Return the route's method, and HEAD beside GET, for which aiohttp leaves out the body."""
    return ("GET", "HEAD") if route.method == "GET" else (route.method,)


def indexes_of(context: AppContext) -> SortedIndexes:
    caches = context.caches
    fleet = ClusterSummary(
        nodes=context.nodes,
        quotas=context.quotas,
        stock=Counts(caches.stock, stock_state_of, group_of=spec_name_of),
        active=Counts(
            caches.units, active_state_of, group_of=spec_name_of, amount_of=running_count_of
        ),
        gpus=context.gpus,
    )
    return SortedIndexes(index=UnitIndex(units=caches.units, stock=caches.stock), fleet=fleet)


def _live_routes(
    context: AppContext, indexes: SortedIndexes, streams: Streams
) -> tuple[Route, ...]:
    return live_routes(
        streams,
        operations=context.operations,
        index=indexes.index,
        fleet=indexes.fleet,
        connection=context.connection,
    )


def routes_of(
    context: AppContext, options: ApiOptions, indexes: SortedIndexes | None = None
) -> tuple[Route, ...]:
    """Return the routes that the OpenAPI document describes."""
    indexes = indexes or indexes_of(context)
    operations, client, fleet = context.operations, context.client, indexes.fleet
    health = Health(fleet, connection=context.connection, now=context.now, version=options.version)
    return (
        *status_routes(health, fleet),
        flavour_route(Flavours(context.caches, fleet)),
        audit_route(context.auditor, context.now),
        *stock_routes(operations, options.namespaces),
        *unit_routes(
            operations.units,
            indexes.index,
            UnitEvents(client),
            options.namespaces,
        ),
        *ticket_routes(
            operations.units,
            TicketIssuer(options.gateway, context.ticket_keys, now=context.now, rng=context.rng),
            context.guard,
            WakeGuard(context.guard, context.ticket_keys, now=context.now),
            context.record,
        ),
        *storage_routes(operations.storages, options.namespaces),
        *secret_routes(operations.secrets),
        *file_routes(
            FileServers(operations.storages, context.services, context.map_address),
            FileRelay(options.files),
        ),
        log_route(operations.units, UnitLogs(client)),
        *invocation_routes(context.serverless, context.connection),
        *function_routes(context.serverless.functions),
        *dead_letter_routes(context.serverless),
    )
