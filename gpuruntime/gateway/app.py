"""The gateway's application: the host decides who serves a request, and errors become answers."""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias, assert_never

import attrs
import structlog
from aiohttp import hdrs, web

from gpuruntime.gateway.connections import Connections
from gpuruntime.gateway.errors import Code, GatewayError, error_answer
from gpuruntime.gateway.gate import Gate
from gpuruntime.gateway.hosts import PortHost, ProgramHost, TerminalHost, parse_host
from gpuruntime.gateway.units import Units
from gpuruntime.kube.client import Client
from gpuruntime.meter import Meter
from gpuruntime.tickets.addresses import GatewayAddress

# Handles a request for a unit, which is named by its name or, at a terminal's host, by its slug.
UnitHandler: TypeAlias = Callable[[web.Request, str], Awaitable[web.StreamResponse]]
_PROGRAM_PATH: Final = re.compile(r"/units/([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)/([a-z]+)")

log = structlog.get_logger()


@attrs.frozen(kw_only=True, slots=True)
class GatewayContext:
    """The dependencies of the handlers."""

    address: GatewayAddress
    gate: Gate
    connections: Connections
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
        try:
            return await self._served(request)
        except GatewayError as error:
            self._context.meter.count("gateway_refused_total", reason=error.reason or error.code)
            log.debug("request refused", code=error.code, reason=error.reason)
            return error_answer(error)

    async def _served(self, request: web.Request) -> web.StreamResponse:
        host = parse_host(_host_of(request), self._context.address)
        match host:
            case ProgramHost():
                return await self._serve_program(request)
            case TerminalHost():
                if self._handlers.terminal is None:
                    raise GatewayError(Code.NOT_FOUND, "the gateway runs without terminals")
                return await self._handlers.terminal(request, host.slug)
            case PortHost():
                raise GatewayError(Code.NOT_FOUND, "nothing is served here")
            case _:
                assert_never(host)

    async def _serve_program(self, request: web.Request) -> web.StreamResponse:
        found = _PROGRAM_PATH.fullmatch(request.path)
        handler = self._handlers.verbs.get(found[2]) if found else None
        if found is None or handler is None:
            raise GatewayError(Code.NOT_FOUND, "nothing is served at this path")
        return await handler(request, found[1])


def make_gateway_app(context: GatewayContext, handlers: Handlers) -> web.Application:
    app = web.Application()
    app.router.add_route(hdrs.METH_ANY, "/{path:.*}", Gateway(context, handlers).serve)
    return app


def _host_of(request: web.Request) -> str:
    """Return the one Host of the request. Raise GatewayError for an absolute-form target."""
    hosts = request.headers.getall(hdrs.HOST, [])
    if len(hosts) != 1 or not request.raw_path.startswith("/"):
        raise GatewayError(Code.INVALID_REQUEST, "a request needs one Host and a path")
    return hosts[0]
