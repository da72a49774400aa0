"""Handlers for aiohttp, made from routes: read the request, call the handler, encode its reply."""

from collections.abc import Callable
from typing import Any

import msgspec
from aiohttp import hdrs, web
from aiohttp.typedefs import Handler as WebHandler

from gpuruntime.api.cluster_link import ClusterLink, demand_cluster
from gpuruntime.api.http.body import Bodies
from gpuruntime.api.http.query import QueryReader
from gpuruntime.api.http.routing import Answer, AnyQuery, Call, Encoded, Form, Reply, Route
from gpuruntime.strict.json_documents import read_document

_encoder = msgspec.json.Encoder()


def web_handler(route: Route, connection: Callable[[], ClusterLink], bodies: Bodies) -> WebHandler:
    """Return a handler that reads query and body before it demands a cluster.

    So a bad request is 400 even while no cluster is reachable.
    """

    queries: QueryReader[Any] = QueryReader(route.query)
    takes_any_query = route.query is AnyQuery

    async def handle(request: web.Request) -> web.StreamResponse:
        query = AnyQuery() if takes_any_query else queries.read(request.rel_url.raw_query_string)
        body = await _body(request, route, bodies)
        if route.needs_cluster:
            demand_cluster(connection())
        reply = await route.handler(Call(request=request, query=query, body=body))
        if isinstance(reply, web.StreamResponse):
            return reply
        return encoded(reply, route.answer(reply.status))

    return handle


def encoded(reply: Reply, answer: Answer) -> web.Response:
    return web.Response(
        status=reply.status,
        body=_bytes(reply, answer.form),
        headers={**_content_type(answer), **reply.headers},
    )


def _content_type(answer: Answer) -> dict[str, str]:
    return {} if answer.form is Form.EMPTY else {hdrs.CONTENT_TYPE: answer.media_type}


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


async def defer_continue(_: web.Request) -> None:
    """Send nothing: the body is requested only after every check that can refuse it unread."""


async def _body(request: web.Request, route: Route, bodies: Bodies) -> Any:
    if route.body is None:
        return None
    return read_document(await bodies.read(request)).parsed(route.body.parse)
