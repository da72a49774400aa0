"""Layers around every handler, outermost first; the order is the architecture.

1. Request id: every layer below may name it.
2. Access: counts and logs the answers that callers really get.
3. Problems: turns every failure into an answer.
4. Limits, on routes with a body: refuse it before a byte of it is read.
5. Deadline, on timed routes: handler and body end in time.

The first three surround unknown paths, too.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final, TypeAlias

import structlog
from aiohttp import hdrs, web
from aiohttp.typedefs import Middleware

from gpuruntime.api.errors import BodyTooLargeError, DeadlineError, UnsupportedMediaTypeError
from gpuruntime.api.http.problems import KNOWN, bug_answer, problem_answer
from gpuruntime.api.http.routing import JSON, Route
from gpuruntime.api.http.security_headers import REQUEST_ID, add_common_headers
from gpuruntime.concurrency.clock import loop_time
from gpuruntime.meter import Meter

Next: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

_SANE_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_ID_KEY: Final = web.RequestKey("request_id", str)
_NO_ROUTE = "unknown"
_AS_IT_IS: Final = "identity"
_WRITES = frozenset({"POST", "PUT", "DELETE", "PATCH", "MKCOL", "COPY", "MOVE"})
_FAULT = 500
_METHODS = _WRITES | {"GET", "HEAD", "OPTIONS", "PROPFIND"}

log = structlog.get_logger()


def middlewares(*, rng: Random, meter: Meter) -> tuple[Middleware, ...]:
    return (request_id(rng), access(meter), problems)


def bounded(route: Route, handler: Next, *, body_limit: int, deadline_seconds: float) -> Next:
    """Return the handler within the limits and the deadline of its kind of route."""
    timed = handler if route.is_untimed else with_deadline(handler, deadline_seconds)
    return with_limits(timed, body_limit) if route.body else timed


def request_id(rng: Random) -> Middleware:
    @web.middleware
    async def middleware(request: web.Request, handler: Next) -> web.StreamResponse:
        given = request.headers.get(REQUEST_ID, "")
        known = given if _SANE_ID.fullmatch(given) else new_request_id(rng)
        request[_ID_KEY] = known
        # aiohttp gives each request a task, so the context is the request's own.
        structlog.contextvars.bind_contextvars(request_id=known)
        return await handler(request)

    return middleware


def new_request_id(rng: Random) -> str:
    return f"{rng.getrandbits(128):032x}"


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Add the common headers before the head of any answer leaves, a streamed one included."""
    add_common_headers(response, request.get(_ID_KEY, ""), is_encrypted=request.secure)


def access(meter: Meter) -> Middleware:
    @web.middleware
    async def middleware(request: web.Request, handler: Next) -> web.StreamResponse:
        loop = asyncio.get_running_loop()
        started, status = loop_time(), 0
        try:
            response = await handler(request)
            status = response.status
            return response
        finally:
            # The answer leaves before it is logged.
            loop.call_soon(_record, meter, request, status, loop_time() - started)

    return middleware


def _record(meter: Meter, request: web.Request, status: int, seconds: float) -> None:
    """Count the request, and log a write or a failure; status 0 is a request that was cut off."""
    resource = request.match_info.route.resource
    labels = {
        "method": request.method if request.method in _METHODS else "other",
        "route": resource.canonical if resource else _NO_ROUTE,
    }
    meter.observe("http_request_seconds", seconds, code=str(status), **labels)
    if request.method in _WRITES or status >= _FAULT:
        log.info("request served", path=request.path, status=status, seconds=seconds, **labels)


@web.middleware
async def problems(request: web.Request, handler: Next) -> web.StreamResponse:
    try:
        return await handler(request)
    except KNOWN as error:
        return problem_answer(error, request.method)
    except Exception:
        log.exception("request failed by a fault of ours", path=request.path)
        return bug_answer(request[_ID_KEY])


def with_limits(handler: Next, body_limit: int) -> Next:
    """Refuse bodies by their headers; a body without a length is measured while it is read."""

    async def limited(request: web.Request) -> web.StreamResponse:
        if (request.content_length or 0) > body_limit:
            raise BodyTooLargeError(f"the body is larger than {body_limit} bytes: send less")
        if request.content_type != JSON:
            raise UnsupportedMediaTypeError(f"send the body as {JSON}")
        if request.headers.get(hdrs.CONTENT_ENCODING, _AS_IT_IS).lower() != _AS_IT_IS:
            raise UnsupportedMediaTypeError("send the body as it is, without Content-Encoding")
        return await handler(request)

    return limited


def with_deadline(handler: Next, seconds: float) -> Next:
    """Answer within `seconds`. A use case that writes continues after that, until it ends or
    releases.
    """

    async def timed(request: web.Request) -> web.StreamResponse:
        timer = asyncio.timeout(seconds)
        try:
            async with timer:
                return await handler(request)
        except TimeoutError as error:
            if not timer.expired():
                raise
            raise DeadlineError(
                f"no outcome within {seconds:g} s, it may have been done: "
                f"the same operationID can safely be sent again"
            ) from error

    return timed
