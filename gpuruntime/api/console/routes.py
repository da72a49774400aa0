"""Streams of the console: pages of lists and the fleet's counts, as they change.

Each needs the same rights as the route that reads the same data once.
"""

from collections.abc import Callable, Iterator
from typing import Annotated, Any, Final, TypeAlias

import attrs
from aiohttp import web

from gpuruntime.api.auth import access
from gpuruntime.api.auth.access import (
    Access,
    Place,
    Verb,
    pool_access,
    storage_access,
    unit_access,
)
from gpuruntime.api.auth.tenancy import asked_tenants
from gpuruntime.api.cluster_link import ClusterLink
from gpuruntime.api.console.page_diffs import LivePage, PageDiff, Rows, ValueDiff
from gpuruntime.api.console.rows import pool_row, stock_row, storage_row, unit_row
from gpuruntime.api.console.static_files import CONSOLE
from gpuruntime.api.console.streams import EVENT_STREAM, EventSource, Streams
from gpuruntime.api.http.routing import READ, Answer, Call, Form, Handler, NoQuery, Route
from gpuruntime.api.views.cluster_summary import ClusterSummary
from gpuruntime.api.views.pages import Cursor, cursor_after_key, key_of
from gpuruntime.api.views.unit_index import Filter, UnitIndex
from gpuruntime.models.definitions.schemas import Schema
from gpuruntime.models.definitions.texts import LabelValue, SpecName
from gpuruntime.models.kinds.phases import UnitPhase
from gpuruntime.models.views.units import Lifecycle
from gpuruntime.operations.operations import Operations

EVENTS: Final = f"{CONSOLE}events"
FLEET: Final = Access(verb=Verb.GET, resource=access.INVENTORY, place=Place.ALL)
# A small limit, as each reader's page is kept in memory.
LiveLimit: TypeAlias = Annotated[int, Schema(minimum=1, maximum=200)]


@attrs.frozen(kw_only=True, slots=True)
class LiveQuery:
    """A live page; `fleet` adds the fleet's counts."""

    fleet: bool = False
    limit: LiveLimit = 50
    cursor: Cursor = ""


@attrs.frozen(kw_only=True, slots=True)
class LiveStock(LiveQuery):
    phase: UnitPhase | None = None
    specName: SpecName = ""


@attrs.frozen(kw_only=True, slots=True)
class LiveUnits(LiveStock):
    tenant: LabelValue = ""


def live_routes(
    streams: Streams,
    *,
    operations: Operations,
    index: UnitIndex,
    fleet: ClusterSummary,
    connection: Callable[[], ClusterLink],
) -> tuple[Route, ...]:
    handlers = _LiveHandlers(streams, operations, index, fleet, connection)
    of_stock = attrs.evolve(unit_access(Verb.LIST), place=Place.STOCK)
    return (
        _route("units", unit_access(Verb.LIST), handlers.units, LiveUnits),
        _route("stock", of_stock, handlers.stock, LiveStock),
        _route("pools", pool_access(Verb.LIST), handlers.pools, LiveQuery),
        _route("storages", storage_access(Verb.LIST), handlers.storages, LiveQuery),
        _route("fleet", FLEET, handlers.fleet, NoQuery),
    )


class _LiveHandlers:
    def __init__(
        self,
        streams: Streams,
        operations: Operations,
        index: UnitIndex,
        fleet: ClusterSummary,
        connection: Callable[[], ClusterLink],
    ) -> None:
        self._streams = streams
        self._operations = operations
        self._index = index
        self._fleet = fleet
        self._connection = connection

    async def units(self, call: Call[LiveUnits, None]) -> web.StreamResponse:
        asked = call.query
        wanted = Filter(
            phase=asked.phase,
            spec_name=asked.specName,
            tenants=asked_tenants(asked.tenant, call.principal),
        )
        return await self._serve(call, asked, self._page_of(wanted, asked))

    async def stock(self, call: Call[LiveStock, None]) -> web.StreamResponse:
        asked = call.query
        wanted = Filter(
            lifecycle=Lifecycle.STOCK,
            phase=asked.phase,
            spec_name=asked.specName,
            tenants=call.scope.tenants,
        )
        return await self._serve(call, asked, self._page_of(wanted, asked))

    async def pools(self, call: Call[LiveQuery, None]) -> web.StreamResponse:
        limit, after, rows = call.query.limit, key_of(call.query.cursor), Rows(pool_row)

        def read() -> LivePage:
            page = self._operations.pools.page(limit=limit, after=after)
            return LivePage(rows=rows.of(page.pools), next=cursor_after_key(page.next))

        return await self._serve(call, call.query, read)

    async def storages(self, call: Call[LiveQuery, None]) -> web.StreamResponse:
        limit, after, rows = call.query.limit, key_of(call.query.cursor), Rows(storage_row)
        scope = call.scope

        def read() -> LivePage:
            page = self._operations.storages.page(limit=limit, after=after, scope=scope)
            return LivePage(rows=rows.of(page.storages), next=cursor_after_key(page.next))

        return await self._serve(call, call.query, read)

    async def fleet(self, call: Call[NoQuery, None]) -> web.StreamResponse:
        return await self._streams.serve(
            call.request, [self._fleet_source()], reader=_reader(call)
        )

    def _page_of(self, wanted: Filter, asked: LiveQuery) -> Callable[[], LivePage]:
        limit, after = asked.limit, key_of(asked.cursor)
        rows = Rows(stock_row if wanted.lifecycle is Lifecycle.STOCK else unit_row)

        def read() -> LivePage:
            units, following = self._index.units(wanted, limit=limit, after=after)
            return LivePage(rows=rows.of(units), next=cursor_after_key(following))

        return read

    async def _serve(
        self, call: Call[Any, None], asked: LiveQuery, read: Callable[[], LivePage]
    ) -> web.StreamResponse:
        sources: list[EventSource] = [PageDiff(read)]
        if asked.fleet:
            sources.insert(0, self._fleet_source())
        return await self._streams.serve(call.request, sources, reader=_reader(call))

    def _fleet_source(self) -> EventSource:
        return ValueDiff("fleet", self._counts)

    def _counts(self) -> object:
        return {
            "specs": self._fleet.specs(),
            "queueConnected": self._connection().is_queue_connected,
        }


def _reader(call: Call[Any, None]) -> str:
    """Return the caller's name, or "" if callers are not identified."""
    return "" if call.principal is access.ANYBODY else call.principal.name


def _fleet_asked(request: web.Request) -> Iterator[Access]:
    if set(request.query.getall("fleet", ())) - {"false"}:
        yield FLEET


def _route(name: str, needed: Access, handler: Handler, query: type) -> Route:
    return Route(
        name=f"watch{name.capitalize()}",
        method="GET",
        path=f"{EVENTS}/{name}",
        access=needed,
        further=_fleet_asked,
        handler=handler,
        summary=f"A live page of {name}",
        query=query,
        answers=(
            Answer(status=200, description="Events.", form=Form.RAW, media_type=EVENT_STREAM),
        ),
        errors=READ,
        is_untimed=True,
        lasts=True,
        tag="console",
    )
