"""The layers around every handler; their order is the architecture.

A layer takes the handler below it and returns one for a route, once for each route. It returns the
handler below itself if the route does not need the layer. Headers of every answer are no layer
but a signal, since a streamed answer sends its head from below all layers.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random
from typing import Any, Final, TypeAlias

import attrs
import msgspec
import structlog
from aiohttp import hdrs, web
from aiohttp.typedefs import Middleware

from gpuruntime.api.auth.access import OPEN, Known, Open
from gpuruntime.api.auth.authentication import PRINCIPAL, Guard
from gpuruntime.api.auth.browser_origins import BrowserOrigins
from gpuruntime.api.auth.rate_limits import RateLimits
from gpuruntime.api.cluster_link import ClusterLink, demand_cluster
from gpuruntime.api.errors import (
    BodyTooLargeError,
    DeadlineError,
    UnknownPathError,
    UnsupportedMediaTypeError,
)
from gpuruntime.api.http.body import Bodies
from gpuruntime.api.http.in_flight import InFlightLimit
from gpuruntime.api.http.problems import KNOWN, bug_answer, problem_answer
from gpuruntime.api.http.query import QueryReader
from gpuruntime.api.http.routing import (
    JSON,
    Answer,
    AnyQuery,
    Call,
    Encoded,
    Form,
    Reply,
    Route,
)
from gpuruntime.api.http.security_headers import REQUEST_ID, add_common_headers
from gpuruntime.concurrency.clock import loop_time
from gpuruntime.meter import Meter
from gpuruntime.strict.json_documents import read_document

_ID: Final = web.RequestKey("request_id", str)
_QUERY: Final = web.RequestKey("query", object)
_BODY: Final = web.RequestKey("body", object)
_SANE_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_WRITES: Final = frozenset({"POST", "PUT", "DELETE", "PATCH", "MKCOL", "COPY", "MOVE"})
_METHODS: Final = _WRITES | {"GET", "HEAD", "OPTIONS", "PROPFIND"}
_FAULT: Final = 500
_AS_IT_IS: Final = "identity"

_encoder: Final = msgspec.json.Encoder()
log = structlog.get_logger()


@attrs.frozen(kw_only=True, slots=True)
class LayerContext:
    """Dependencies of the layers, shared by all routes."""

    guard: Guard
    rate_limits: RateLimits
    in_flight: InFlightLimit
    origins: BrowserOrigins
    bodies: Bodies
    connection: Callable[[], ClusterLink]
    rng: Random
    meter: Meter
    body_limit: int
    deadline_seconds: float


Next: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]
Layer: TypeAlias = Callable[[Route, Next, LayerContext], Next]


def layers() -> tuple[Layer, ...]:
    """Return the layers, outermost first."""
    return (
        request_id,  # every layer below may name it
        access_log,  # counts and logs the answers that callers really get
        problems,  # turns every failure below into an answer
        in_flight,  # counts unknown callers, too, as checking them is work
        authentication,
        origin,  # only if callers are not identified
        rate_limit,
        rights,
        body_head,  # refuses a body before a byte of it is read
        deadline,  # on timed routes: the rest ends in time
        query,  # a bad request is 400 even while no cluster is reachable
        body,
        cluster,
    )


def handler_of(route: Route, context: LayerContext) -> Next:
    """Return the route's handler within the layers that the route needs."""
    handler = _endpoint(route)
    for layer in reversed(layers()):
        handler = layer(route, handler, context)
    return handler


def unknown_paths(context: LayerContext) -> Middleware:
    """Return a middleware that answers, within the same layers, requests that match no route."""
    answer = handler_of(_UNKNOWN, context)

    @web.middleware
    async def middleware(request: web.Request, handler: Next) -> web.StreamResponse:
        is_known = request.match_info.http_exception is None
        return await (handler if is_known else answer)(request)

    return middleware


async def _refuse(call: Call[AnyQuery, None]) -> Reply:
    if earlier := _EARLIER.fullmatch(call.request.path):
        successor = _SUCCESSORS[earlier[1]]
        raise UnknownPathError(f"nothing is served at this path: use {successor} instead")
    raise call.request.match_info.http_exception or web.HTTPNotFound


# The first paths of the Go original, which docs/from-the-original.md compares with ours.
_EARLIER: Final = re.compile(r"(?:/api/v1)?/(stocks|vms)(?:/.*)?", re.DOTALL)
_SUCCESSORS: Final = {"stocks": "/api/v1/operator/stockpools", "vms": "/api/v1/gpu-units"}
_UNKNOWN: Final = Route(
    name="unknown",
    method=hdrs.METH_ANY,
    path="",
    access=OPEN,
    handler=_refuse,
    summary="",
    answers=(),
    query=AnyQuery,
    needs_cluster=False,
    is_untimed=True,
)


def request_id(_: Route, below: Next, context: LayerContext) -> Next:
    rng = context.rng

    async def identified(request: web.Request) -> web.StreamResponse:
        given = request.headers.get(REQUEST_ID, "")
        known = given if _SANE_ID.fullmatch(given) else new_request_id(rng)
        request[_ID] = known
        # aiohttp gives each request a task, so the context is the request's own.
        structlog.contextvars.bind_contextvars(request_id=known)
        return await below(request)

    return identified


def new_request_id(rng: Random) -> str:
    return f"{rng.getrandbits(128):032x}"


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Add the common headers before the head of any answer leaves, a streamed one included."""
    add_common_headers(response, request.get(_ID, ""), is_encrypted=request.secure)


def access_log(_: Route, below: Next, context: LayerContext) -> Next:
    meter = context.meter

    async def recorded(request: web.Request) -> web.StreamResponse:
        # A request that was cut off has the status 0.
        started, status = loop_time(), 0
        try:
            response = await below(request)
            status = response.status
            return response
        finally:
            _record(meter, request, status, loop_time() - started)

    return recorded


def _record(meter: Meter, request: web.Request, status: int, seconds: float) -> None:
    """Count the request, and log a write or a failure once its answer has left."""
    method, resource = request.method, request.match_info.route.resource
    route = resource.canonical if resource else "unknown"
    counted = method if method in _METHODS else "other"
    meter.observe("http_request_seconds", seconds, code=str(status), method=counted, route=route)
    if method in _WRITES or status >= _FAULT:
        told = {"path": request.path, "status": status, "seconds": seconds}
        write = partial(log.info, "request served", **told, method=counted, route=route)
        asyncio.get_running_loop().call_soon(write)


def problems(_: Route, below: Next, __: LayerContext) -> Next:
    async def answered(request: web.Request) -> web.StreamResponse:
        try:
            return await below(request)
        except KNOWN as error:
            return problem_answer(error, request.method)
        except Exception:
            log.exception("request failed by a fault of ours", path=request.path)
            return bug_answer(request[_ID])

    return answered


def in_flight(route: Route, below: Next, context: LayerContext) -> Next:
    if isinstance(route.access, Open):
        return below

    async def counted(request: web.Request) -> web.StreamResponse:
        with context.in_flight.place(lasts=route.lasts):
            return await below(request)

    return counted


def authentication(route: Route, below: Next, context: LayerContext) -> Next:
    if isinstance(route.access, Open):
        return below
    guard = _guard_of(route, context)

    async def authenticated(request: web.Request) -> web.StreamResponse:
        principal = await guard.principal_of(request.headers)
        request[PRINCIPAL] = principal
        if guard.asks:
            structlog.contextvars.bind_contextvars(caller=principal.name)
        return await below(request)

    return authenticated


def origin(route: Route, below: Next, context: LayerContext) -> Next:
    if isinstance(route.access, Open) or _guard_of(route, context).asks:
        return below

    async def of_this_server(request: web.Request) -> web.StreamResponse:
        context.origins.demand(request.method, request.headers)
        return await below(request)

    return of_this_server


def rate_limit(route: Route, below: Next, context: LayerContext) -> Next:
    if isinstance(route.access, Open) or not _guard_of(route, context).asks:
        return below

    async def limited(request: web.Request) -> web.StreamResponse:
        with context.rate_limits.use(request[PRINCIPAL].name, loop_time()):
            return await below(request)

    return limited


def rights(route: Route, below: Next, context: LayerContext) -> Next:
    access, guard = route.access, _guard_of(route, context)
    if isinstance(access, Open) or not guard.asks:
        return below

    own = () if isinstance(access, Known) else (access,)

    async def permitted(request: web.Request) -> web.StreamResponse:
        for needed in (*own, *route.further(request)):
            await guard.demand(request[PRINCIPAL], needed)
        return await below(request)

    return permitted


def body_head(route: Route, below: Next, context: LayerContext) -> Next:
    """Refuse bodies by their headers; a body without a length is measured while it is read."""
    if route.body is None:
        return below
    most = context.body_limit

    async def fitting(request: web.Request) -> web.StreamResponse:
        if (request.content_length or 0) > most:
            raise BodyTooLargeError(f"the body is larger than {most} bytes: send less")
        if request.content_type != JSON:
            raise UnsupportedMediaTypeError(f"send the body as {JSON}")
        if request.headers.get(hdrs.CONTENT_ENCODING, _AS_IT_IS).lower() != _AS_IT_IS:
            raise UnsupportedMediaTypeError("send the body as it is, without Content-Encoding")
        return await below(request)

    return fitting


def deadline(route: Route, below: Next, context: LayerContext) -> Next:
    """Answer in time. A use case that writes continues after that, until it ends or releases."""
    if route.is_untimed:
        return below
    seconds = context.deadline_seconds

    async def timed(request: web.Request) -> web.StreamResponse:
        timer = asyncio.timeout(seconds)
        try:
            async with timer:
                return await below(request)
        except TimeoutError as error:
            if not timer.expired():
                raise
            raise DeadlineError(
                f"no outcome within {seconds:g} s, it may have been done: "
                f"the same operationID can safely be sent again"
            ) from error

    return timed


def query(route: Route, below: Next, _: LayerContext) -> Next:
    reader: QueryReader[Any] = QueryReader(route.query)
    takes_any = route.query is AnyQuery

    async def asked(request: web.Request) -> web.StreamResponse:
        text = request.rel_url.raw_query_string
        request[_QUERY] = AnyQuery() if takes_any else reader.read(text)
        return await below(request)

    return asked


def body(route: Route, below: Next, context: LayerContext) -> Next:
    expected = route.body
    if expected is None:
        return below

    async def received(request: web.Request) -> web.StreamResponse:
        document = read_document(await context.bodies.read(request))
        request[_BODY] = document.parsed(expected.parse)
        return await below(request)

    return received


def _guard_of(route: Route, context: LayerContext) -> Guard:
    return route.guard or context.guard


async def defer_continue(_: web.Request) -> None:
    """Send nothing: the body is requested only after every check that can refuse it unread."""


def cluster(route: Route, below: Next, context: LayerContext) -> Next:
    if not route.needs_cluster:
        return below

    async def connected(request: web.Request) -> web.StreamResponse:
        demand_cluster(context.connection())
        return await below(request)

    return connected


def _endpoint(route: Route) -> Next:
    """Return the innermost handler: it calls the route's own, and encodes its reply."""

    async def replied(request: web.Request) -> web.StreamResponse:
        call = Call(request=request, query=request[_QUERY], body=request.get(_BODY))
        reply = await route.handler(call)
        if isinstance(reply, web.StreamResponse):
            return reply
        return _encoded(reply, route.answer(reply.status))

    return replied


def _encoded(reply: Reply, answer: Answer) -> web.Response:
    is_typed = answer.form is not Form.EMPTY
    media_type = {str(hdrs.CONTENT_TYPE): answer.media_type} if is_typed else {}
    return web.Response(
        status=reply.status,
        body=_bytes(reply, answer.form),
        headers={**media_type, **reply.headers},
    )


def _bytes(reply: Reply, form: Form) -> bytes | None:
    match form:
        case Form.ONE:
            return _encoder.encode({"data": reply.data})
        case Form.PAGE:
            if isinstance(reply.data, Encoded):
                return reply.data.document
            return _encoder.encode({"data": reply.data, "next": reply.next})
        case Form.RAW:
            return reply.data if isinstance(reply.data, bytes) else _encoder.encode(reply.data)
        case Form.EMPTY:
            return None
