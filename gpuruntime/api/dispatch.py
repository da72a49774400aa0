"""From a route to what aiohttp calls: read the request, call the handler, encode its reply."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import msgspec
from aiohttp import hdrs, web
from aiohttp.typedefs import Handler as WebHandler

from gpuruntime.api.connection import Connection, demand_cluster
from gpuruntime.api.documents import read_document
from gpuruntime.api.errors import DeadlineError
from gpuruntime.api.queries import QueryReader
from gpuruntime.api.routing import Answer, AnyQuery, Call, Encoded, Form, Reply, Route
from gpuruntime.models.strict import Problem, StrictError

# Of routes without a deadline as well: what they bound by themselves comes after the body.
BODY_SECONDS: Final = 65.0
_encoder = msgspec.json.Encoder()


def web_handler(route: Route, connection: Callable[[], Connection]) -> WebHandler:
    """The cluster is asked for last: a bad request is bad, whether the cluster is there or not."""

    queries: QueryReader[Any] = QueryReader(route.query)
    is_any = route.query is AnyQuery

    async def handle(request: web.Request) -> web.StreamResponse:
        query = AnyQuery() if is_any else queries.read(request.rel_url.raw_query_string)
        body = await _body(request, route)
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
        headers={**_type(answer), **reply.headers},
    )


def _type(answer: Answer) -> dict[str, str]:
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


async def expected(_: web.Request) -> None:
    """Nothing yet: a body is asked for when all that can refuse it unread has agreed."""


async def ask_for_body(request: web.Request) -> None:
    """Of whoever waits to be asked; nothing of the answer may have left yet."""
    if request.headers.get(hdrs.EXPECT, "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0


async def _body(request: web.Request, route: Route) -> Any:
    if route.body is None:
        return None
    await ask_for_body(request)
    try:
        async with asyncio.timeout(BODY_SECONDS):
            data = await request.read()
    except TimeoutError as error:
        raise DeadlineError(
            f"the body did not come within {BODY_SECONDS:g} s: nothing was done, send it again"
        ) from error
    except (web.RequestPayloadError, ConnectionError) as error:
        message = "the body ended early, or is not encoded as its head says"
        raise StrictError((Problem(field="", message=message),)) from error
    return read_document(data).parsed(route.body.parse)
