"""The route of a unit's log: bytes from its Pod while the caller reads them."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Final

import attrs
from aiohttp import hdrs, web

from gpuruntime.api.auth.access import Verb, unit_access
from gpuruntime.api.http.routing import READ, TEXT, Answer, Call, Form, Route
from gpuruntime.api.routes.units import UNIT
from gpuruntime.api.views.unit_logs import LogQuery, UnitLogs
from gpuruntime.models.definitions.schemas import Schema
from gpuruntime.models.definitions.texts import Name
from gpuruntime.models.kinds.templates import RUNTIME_CONTAINER
from gpuruntime.operations.units import Units

# Without writes, only this check finds out that the reader of a silent log has left.
LOOK_EVERY_SECONDS: Final = 5.0
# A reader that takes no byte for this long is dropped.
TAKE_SECONDS: Final = 60.0
_MOST_LINES = 1_000_000
_MOST_SECONDS = 366 * 86_400


@attrs.frozen(kw_only=True, slots=True)
class ReadLog:
    tail: Annotated[
        int | None,
        Schema(minimum=0, maximum=_MOST_LINES, description="Last lines only; absent, all."),
    ] = None
    follow: Annotated[bool, Schema(description="Go on until the container ends.")] = False
    container: Name = RUNTIME_CONTAINER
    sinceSeconds: Annotated[
        int | None,
        Schema(minimum=1, maximum=_MOST_SECONDS, description="Lines of the last seconds only."),
    ] = None
    previous: Annotated[
        bool, Schema(description="The container's run before its last restart.")
    ] = False
    timestamps: Annotated[bool, Schema(description="Each line after its time.")] = False


def log_route(units: Units, logs: UnitLogs) -> Route:
    async def read(call: Call[ReadLog, None]) -> web.StreamResponse:
        asked = call.query
        unit = await units.get(call.path("name"), scope=call.scope)
        query = LogQuery(
            container=asked.container,
            tail=asked.tail,
            follow=asked.follow,
            since_seconds=asked.sinceSeconds,
            is_previous=asked.previous,
            has_timestamps=asked.timestamps,
        )
        async with logs.open(unit, query) as chunks:
            return await _streamed(call.request, chunks)

    return Route(
        method="GET",
        path=f"{UNIT}/logs",
        name="readUnitLog",
        access=unit_access(Verb.GET, "log"),
        handler=read,
        summary="The log of a unit's Pod",
        query=ReadLog,
        answers=(
            Answer(status=200, description="The log as text.", form=Form.RAW, media_type=TEXT),
        ),
        errors=(*READ, "gpuunit_not_found", "not_found"),
        is_untimed=True,
        lasts=True,
    )


async def _streamed(request: web.Request, chunks: AsyncIterator[bytes]) -> web.StreamResponse:
    """Stream the log. The status has left, so a failure from here on can only end the body."""
    response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: f"{TEXT}; charset=utf-8"})
    try:
        await response.prepare(request)
    except ConnectionError:  # the reader left while the log was opened
        return response
    if request.method == hdrs.METH_HEAD:
        return response
    async with asyncio.TaskGroup() as tasks:
        pump = tasks.create_task(_pump(chunks, request, response), name="hand on a log")
        listening = tasks.create_task(_while_listening(request), name="watch a log's reader")
        await asyncio.wait([pump, listening], return_when=asyncio.FIRST_COMPLETED)
        pump.cancel()
        listening.cancel()
    return response


async def _pump(
    chunks: AsyncIterator[bytes], request: web.Request, response: web.StreamResponse
) -> None:
    async for chunk in chunks:
        try:
            async with asyncio.timeout(TAKE_SECONDS):
                await response.write(chunk)
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
            return
        except ConnectionError:
            return


async def _while_listening(request: web.Request) -> None:
    while request.transport is not None:  # noqa: ASYNC110  # aiohttp reports no close
        await asyncio.sleep(LOOK_EVERY_SECONDS)
