"""The gateway's application: the host decides what serves a request, and errors become answers."""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias, assert_never

import attrs
import structlog
from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from gpuruntime.gateway.connections import ConnectionKind, Connections
from gpuruntime.gateway.errors import Code, GatewayError, error_answer
from gpuruntime.gateway.exchange import Exchange, ExchangeOptions, Relayed
from gpuruntime.gateway.gate import Gate, Presented, Visitor, Wanted
from gpuruntime.gateway.headers import onward
from gpuruntime.gateway.hosts import PortHost, ProgramHost, TerminalHost, parse_host
from gpuruntime.gateway.origins import demand_own_origin
from gpuruntime.gateway.pages import Place, place_of, refusal_page, wants_page
from gpuruntime.gateway.presentation import presented_by_browser, presented_by_program
from gpuruntime.gateway.sessions import Sessions
from gpuruntime.gateway.splice import SpliceOptions, splice
from gpuruntime.gateway.units import Units
from gpuruntime.gateway.upstreams import Upstreams
from gpuruntime.gateway.wake import Waker, why_not_ready
from gpuruntime.kube.client import Client
from gpuruntime.meter import Meter
from gpuruntime.models.requests.tickets import Use
from gpuruntime.tickets.addresses import ENTER, GatewayAddress, slug_of
from gpuruntime.tickets.tokens import TokenType

# Handles a request for a unit, which is named by its name or, at a terminal's host, by its slug.
UnitHandler: TypeAlias = Callable[[web.Request, str], Awaitable[web.StreamResponse]]
_NAME: Final = "([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)"
_VERB_PATH: Final = re.compile(rf"/units/{_NAME}/([a-z]+)")
_PORT_PATH: Final = re.compile(rf"/units/{_NAME}/ports/([a-z0-9-]{{1,15}})([/?].*)?", re.DOTALL)
# Paths of units' origins that are the gateway's own.
_OWN_PATHS: Final = "/.gpuruntime/"
# The rest of a body would be taken for the next request, and a replica that stops gets no other.
_CLOSING: Final = frozenset({Code.BODY_TIMEOUT, Code.SERVICE_UNAVAILABLE})
# Browsers ask with it for the script of a service worker.
_WORKER: Final = "Service-Worker"

log = structlog.get_logger()


@attrs.frozen(kw_only=True, slots=True)
class AppOptions:
    """`has_plain_hosts` serves units by their names, too; `head` bounds a head in bytes."""

    has_plain_hosts: bool
    head: int
    exchange: ExchangeOptions
    splice: SpliceOptions


@attrs.frozen(kw_only=True, slots=True)
class GatewayContext:
    """The dependencies of the handlers."""

    address: GatewayAddress
    options: AppOptions
    gate: Gate
    waker: Waker
    sessions: Sessions
    connections: Connections
    upstreams: Upstreams
    units: Units
    client: Client
    meter: Meter


@attrs.frozen(kw_only=True, slots=True)
class Handlers:
    """The parts that a gateway may run without: verbs for programs, and the terminal's page."""

    verbs: Mapping[str, UnitHandler] = attrs.field(factory=dict)
    terminal: UnitHandler | None = None


class Gateway:
    def __init__(self, context: GatewayContext, handlers: Handlers) -> None:
        self._context = context
        self._handlers = handlers

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer any request; a ticket is in no log line."""
        try:
            return await self._served(request)
        except GatewayError as error:
            self._context.meter.count("gateway_refused_total", reason=error.reason or error.code)
            log.debug("request refused", code=error.code, reason=error.reason)
            answer = (
                self._page(request, error) if wants_page(request.headers) else error_answer(error)
            )
            if error.code in _CLOSING:
                answer.force_close()
            return answer

    def _page(self, request: web.Request, error: GatewayError) -> web.Response:
        try:
            host = parse_host(_host_of(request), self._context.address)
        except GatewayError:
            place = Place()
        else:
            place = place_of(host, has_plain_hosts=self._context.options.has_plain_hosts)
        is_entrance, is_get = request.path == ENTER, request.method == hdrs.METH_GET
        return refusal_page(error, place, is_entrance=is_entrance, is_get=is_get)

    async def _served(self, request: web.Request) -> web.StreamResponse:
        self._demand_small_head(request)
        host = parse_host(_host_of(request), self._context.address)
        match host:
            case ProgramHost():
                return await self._serve_program(request)
            case TerminalHost():
                if request.path == ENTER:
                    wanted = self._wanted(Use.EXEC, host.slug)
                    return self._context.sessions.enter(request, wanted)
                if self._handlers.terminal is None:
                    raise GatewayError(Code.NOT_FOUND, "the gateway runs without terminals")
                return await self._handlers.terminal(request, host.slug)
            case PortHost():
                return await self._serve_port(request, host)
            case _:
                assert_never(host)

    async def _serve_port(self, request: web.Request, host: PortHost) -> web.StreamResponse:
        address = self._context.address
        wanted = self._wanted(Use.HTTP, host.slug, host.port)
        if request.path == ENTER:
            return self._context.sessions.enter(request, wanted)
        if request.path.startswith(_OWN_PATHS):
            raise GatewayError(Code.NOT_FOUND, "nothing is served at this path")
        is_secure = address.scheme == "https"
        presented = presented_by_browser(request.headers, is_secure=is_secure)
        own = f"{address.scheme}://{request.headers[hdrs.HOST]}"
        if presented.kind is TokenType.SESSION:
            demand_own_origin(
                request.method, request.headers, own, is_upgrade=_is_web_socket(request)
            )
        relayed = Relayed(
            target=request.raw_path,
            headers=onward(request, presented, address, is_program=False),
            own_origin=own,
            is_program=False,
        )
        return await self._relay(request, presented, wanted, relayed)

    async def _serve_program(self, request: web.Request) -> web.StreamResponse:
        found = _PORT_PATH.fullmatch(request.raw_path)
        if found is None:
            verb = _VERB_PATH.fullmatch(request.path)
            handler = self._handlers.verbs.get(verb[2]) if verb else None
            if verb is None or handler is None:
                raise GatewayError(Code.NOT_FOUND, "nothing is served at this path")
            return await handler(request, verb[1])
        name, port, rest = found.groups(default="")
        presented = presented_by_program(request.headers)
        relayed = Relayed(
            target=rest if rest.startswith("/") else f"/{rest}",
            headers=onward(request, presented, self._context.address, is_program=True),
            own_origin="",
            is_program=True,
        )
        wanted = Wanted(use=Use.HTTP, name=name, port=port)
        return await self._relay(request, presented, wanted, relayed)

    async def _relay(
        self, request: web.Request, presented: Presented, wanted: Wanted, relayed: Relayed
    ) -> web.StreamResponse:
        context = self._context
        kind = ConnectionKind.WEBSOCKET if _is_web_socket(request) else ConnectionKind.HTTP
        may_hold = request.method != hdrs.METH_GET or not wants_page(request.headers)
        outcome = "refused"
        visitor: Visitor | None = None
        try:
            visitor = await context.waker.admit(presented, wanted, may_hold=may_hold)
            if _WORKER in request.headers:
                _demand_one_incarnation(wanted, visitor)
            outcome = "failed"
            answer = await self._answer(request, visitor, kind, relayed)
            outcome = "answered"
        except GatewayError as error:
            if visitor is not None:
                error.state = why_not_ready(visitor.unit)
            raise
        finally:
            context.meter.count("gateway_requests_total", kind=kind, outcome=outcome)
        return answer

    async def _answer(
        self, request: web.Request, visitor: Visitor, kind: ConnectionKind, relayed: Relayed
    ) -> web.StreamResponse:
        context, options = self._context, self._context.options
        with context.connections.open(visitor, kind) as connection:
            if kind is ConnectionKind.WEBSOCKET:
                place = context.upstreams.addresses.of(visitor.unit, visitor.port or 0)
                return await splice(
                    request, relayed, place, connection, options.splice, context.meter
                )
            exchange = Exchange(
                request, relayed, connection, context.upstreams, options.exchange, context.meter
            )
            return await exchange.run()

    def _wanted(self, use: Use, slug: str, port: str = "") -> Wanted:
        """Return what a host wants of its unit: by slug, and with plain hosts by its name, too."""
        name = slug if self._context.options.has_plain_hosts else ""
        return Wanted(use=use, slug=slug, name=name, port=port)

    def _demand_small_head(self, request: web.Request) -> None:
        size = len(request.raw_path) + sum(len(k) + len(v) + 4 for k, v in request.raw_headers)
        most = self._context.options.head
        if size > most:
            raise GatewayError(Code.HEAD_TOO_LARGE, f"the head is larger than {most} bytes")


def _demand_one_incarnation(wanted: Wanted, visitor: Visitor) -> None:
    """Raise GatewayError at a plain host: a worker of it would meet the next unit of the name."""
    if wanted.slug and wanted.slug != slug_of(visitor.unit.metadata.name, visitor.uid):
        raise GatewayError(
            Code.NOT_FOUND,
            "the name of a unit is used again, so it gets no service worker: use the unit's slug",
        )


def make_gateway_app(context: GatewayContext, handlers: Handlers) -> web.Application:
    """Return the application. A middleware serves, since no route matches every target."""
    gateway = Gateway(context, handlers)

    @web.middleware
    async def serve(request: web.Request, handler: Handler) -> web.StreamResponse:  # noqa: ARG001 - aiohttp passes it by name
        return await gateway.serve(request)

    app = web.Application(middlewares=[serve])
    app.router.add_route(
        hdrs.METH_ANY, "/{path:.*}", gateway.serve, expect_handler=_ask_for_no_body
    )
    return app


async def _ask_for_no_body(_: web.Request) -> None:
    """Leave 100-continue to the relay, which sends it once the unit can take the body."""


def _host_of(request: web.Request) -> str:
    """Return the one Host of the request. Raise GatewayError for an absolute-form target."""
    hosts, target = request.headers.getall(hdrs.HOST, []), request.raw_path
    is_text = not any("\ud800" <= each <= "\udfff" for each in target)
    if len(hosts) != 1 or not target.startswith("/") or not is_text:
        raise GatewayError(Code.INVALID_REQUEST, "a request needs one Host and a path")
    return hosts[0]


def _is_web_socket(request: web.Request) -> bool:
    """Return whether the request opens a WebSocket; other upgrades are requests as any."""
    tokens = request.headers.get(hdrs.CONNECTION, "").lower().replace(" ", "").split(",")
    is_asked = "upgrade" in tokens
    return (
        request.method == hdrs.METH_GET
        and is_asked
        and request.headers.get(hdrs.UPGRADE, "").lower() == "websocket"
    )
