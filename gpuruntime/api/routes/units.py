"""The routes of units: create, list, read, change and delete them, and list their Events."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Annotated, Final

import attrs
from aiohttp import web

from gpuruntime.api.auth import access
from gpuruntime.api.auth.access import Access, Place, Verb, unit_access
from gpuruntime.api.auth.tenancy import asked_tenants, owned
from gpuruntime.api.http.headers import IF_MATCH, MEANING_OF_REPLAY, REPLAYED, if_match
from gpuruntime.api.http.routing import (
    READ,
    WRITE,
    Answer,
    Body,
    Call,
    Encoded,
    Form,
    NoQuery,
    Reply,
    Route,
)
from gpuruntime.api.openapi import examples
from gpuruntime.api.views.page_cache import PageCache
from gpuruntime.api.views.pages import (
    DEFAULT_LIMIT,
    Cursor,
    Limit,
    PageQuery,
    cursor_after,
    cursor_after_key,
    key_of,
    position_of,
)
from gpuruntime.api.views.unit_events import UnitEvents
from gpuruntime.api.views.unit_index import Filter, UnitIndex
from gpuruntime.api.views.units import unit_view
from gpuruntime.models.definitions.schemas import Schema
from gpuruntime.models.definitions.texts import LabelValue, SpecName
from gpuruntime.models.kinds.phases import UnitPhase
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.requests.units import CreateUnit, UpdateUnit
from gpuruntime.models.views.units import EventView, Lifecycle, UnitView
from gpuruntime.operations.claim.protocol import Timings
from gpuruntime.operations.options import Namespaces
from gpuruntime.operations.requests import parse_create_unit, parse_update_unit
from gpuruntime.operations.units import Units
from gpuruntime.operations.updates import etag_of

UNITS: Final = "/api/v1/gpu-units"
UNIT: Final = f"{UNITS}/{{name}}"
_TIMING = {"Server-Timing": "Milliseconds in replay, claim and create."}
ETAG: Final = {"ETag": "Changes with the unit's spec; for If-Match."}
_NO_HEADERS: Final[Mapping[str, str]] = {}
_CONFLICTS = ("operation_conflict", "operation_finished", "name_taken")


@attrs.frozen(kw_only=True, slots=True)
class ListUnits:
    """Filters of units; a unit has to match all that are given."""

    phase: UnitPhase | None = None
    specName: SpecName = ""
    lifecycle: Lifecycle = Lifecycle.INSTANCE
    tenant: LabelValue = ""
    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor = ""


@attrs.frozen(kw_only=True, slots=True)
class ReadUnit:
    lifecycle: Annotated[
        str, Schema(enum=(Lifecycle.INSTANCE, Lifecycle.STOCK), description="Which units to read.")
    ] = Lifecycle.INSTANCE


def unit_routes(
    units: Units, index: UnitIndex, events: UnitEvents, namespaces: Namespaces
) -> tuple[Route, ...]:
    handlers = _UnitHandlers(units, index, events)
    return (
        Route(
            method="POST",
            path=UNITS,
            name="createUnit",
            access=unit_access(Verb.CREATE),
            handler=handlers.create,
            summary="Claim stock and start a unit on it",
            body=Body(
                model=CreateUnit,
                parse=partial(parse_create_unit, namespaces=namespaces),
                example=examples.CREATE_UNIT,
            ),
            answers=(
                Answer(
                    status=201,
                    description="The unit was created.",
                    model=UnitView,
                    headers={**ETAG, **_TIMING, "Location": "Where the unit is read."},
                ),
                Answer(
                    status=200,
                    description="The operation was done before: the unit as it is now.",
                    model=UnitView,
                    headers={**ETAG, **_TIMING, **MEANING_OF_REPLAY},
                ),
            ),
            errors=(*WRITE, *_CONFLICTS, "insufficient_capacity", "gpustorage_not_found"),
        ),
        Route(
            method="GET",
            path=UNITS,
            name="listUnits",
            access=unit_access(Verb.LIST),
            further=partial(_of_stock, Verb.LIST),
            is_untimed=True,
            handler=handlers.list,
            summary="List units by name",
            query=ListUnits,
            answers=(
                Answer(status=200, description="A page of units.", form=Form.PAGE, model=UnitView),
            ),
            errors=READ,
        ),
        Route(
            method="GET",
            path=UNIT,
            name="getUnit",
            access=unit_access(Verb.GET),
            further=partial(_of_stock, Verb.GET),
            handler=handlers.get,
            summary="Read a unit",
            query=ReadUnit,
            answers=(Answer(status=200, description="The unit.", model=UnitView, headers=ETAG),),
            errors=(*READ, "gpuunit_not_found"),
        ),
        Route(
            method="PUT",
            path=UNIT,
            name="updateUnit",
            access=unit_access(Verb.UPDATE),
            handler=handlers.update,
            summary="Change a unit",
            body=Body(model=UpdateUnit, parse=parse_update_unit, example=examples.UPDATE_UNIT),
            headers=IF_MATCH,
            answers=(
                Answer(status=200, description="The changed unit.", model=UnitView, headers=ETAG),
            ),
            errors=(
                *WRITE,
                "gpuunit_not_found",
                "gpustorage_not_found",
                "name_taken",
                "precondition_failed",
            ),
        ),
        Route(
            method="DELETE",
            path=UNIT,
            name="deleteUnit",
            access=unit_access(Verb.DELETE),
            handler=handlers.delete,
            summary="Delete a unit",
            headers=IF_MATCH,
            answers=(
                Answer(status=204, description="It is deleted, or about to be.", form=Form.EMPTY),
            ),
            errors=(*READ, "gpuunit_not_found", "precondition_failed"),
        ),
        Route(
            method="GET",
            path=f"{UNIT}/events",
            name="listUnitEvents",
            access=unit_access(Verb.GET),
            handler=handlers.events,
            summary="Events of a unit and its Pods, newest first",
            query=PageQuery,
            answers=(
                Answer(
                    status=200, description="A page of events.", form=Form.PAGE, model=EventView
                ),
            ),
            errors=(*READ, "gpuunit_not_found"),
        ),
    )


class _UnitHandlers:
    def __init__(self, units: Units, index: UnitIndex, events: UnitEvents) -> None:
        self._units = units
        self._index = index
        self._documents = PageCache()
        self._events = events

    async def create(self, call: Call[NoQuery, CreateUnit]) -> Reply:
        creation = await self._units.create(owned(call.body, call.principal), call.scope)
        name = creation.unit.metadata.name
        headers = {"Server-Timing": server_timing(creation.timings)}
        if creation.is_replay:
            return shown(creation.unit, headers={**headers, **REPLAYED})
        headers["Location"] = f"{UNITS}/{name}"
        return shown(creation.unit, status=201, headers=headers)

    async def list(self, call: Call[ListUnits, None]) -> Reply:
        asked, version = call.query, self._index.version
        tenants = asked_tenants(asked.tenant, call.principal)
        document = self._documents.unchanged((asked, tenants), version)
        if document is None:
            wanted = Filter(
                lifecycle=asked.lifecycle,
                phase=asked.phase,
                spec_name=asked.specName,
                tenants=tenants,
            )
            page = self._index.page(wanted, limit=asked.limit, after=key_of(asked.cursor))
            following = cursor_after_key(page.next)
            document = self._documents.of((asked, tenants), version, page.views, following)
        return Reply(data=Encoded(document))

    async def get(self, call: Call[ReadUnit, None]) -> Reply:
        lifecycle = Lifecycle(call.query.lifecycle)
        unit = await self._units.get(call.path("name"), lifecycle, call.scope)
        return shown(unit, lifecycle)

    async def update(self, call: Call[NoQuery, UpdateUnit]) -> Reply:
        matching = if_match(call.request)
        unit = await self._units.update(
            call.path("name"), call.body, if_match=matching, scope=call.scope
        )
        return shown(unit)

    async def delete(self, call: Call[NoQuery, None]) -> Reply:
        matching = if_match(call.request)
        await self._units.delete(call.path("name"), call.scope, if_match=matching)
        return Reply(status=204)

    async def events(self, call: Call[PageQuery, None]) -> Reply:
        cursor = call.query.cursor
        after = position_of(cursor, parts=2) if cursor else ()
        unit = await self._units.get(call.path("name"), scope=call.scope)
        page = await self._events.page(unit, limit=call.query.limit, after=after)
        return Reply(data=page.events, next=cursor_after(*page.next) if page.next else "")


def _of_stock(verb: Verb, request: web.Request) -> Iterator[Access]:
    """Require a right for stock, which has a namespace with rules of its own."""
    if set(request.query.getall("lifecycle", ())) - {Lifecycle.INSTANCE}:
        yield Access(verb=verb, resource=access.UNITS, place=Place.STOCK)


def shown(
    unit: GPUUnit,
    lifecycle: Lifecycle = Lifecycle.INSTANCE,
    *,
    status: int = 200,
    headers: Mapping[str, str] = _NO_HEADERS,
) -> Reply:
    data = unit_view(unit, lifecycle)
    return Reply(status=status, data=data, headers={"ETag": etag_of(unit), **headers})


def server_timing(timings: Timings) -> str:
    """Return the steps in milliseconds, as Server-Timing demands."""
    steps = ("replay", "claim", "create")
    return ", ".join(f"{step};dur={getattr(timings, step) * 1000:.3f}" for step in steps)
