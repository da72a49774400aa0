"""Units over REST: claim, read, change and delete them; read their logs and Events."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs

from gpuruntime.client.messages import Page, Reply, Request, path_of
from gpuruntime.client.requests import document_of, named
from gpuruntime.client.resource import PAGE_ITEMS, ResourceCalls, every
from gpuruntime.client.retries import Repeat
from gpuruntime.models.requests.tickets import CreateTicket
from gpuruntime.models.requests.units import CreateUnit, UpdateUnit
from gpuruntime.models.views.tickets import TicketView
from gpuruntime.models.views.units import EventView, Lifecycle, UnitView

_UNITS: Final = "gpu-units"


@attrs.frozen(kw_only=True, slots=True)
class UnitFilter:
    """Filters that must all match; without a lifecycle only active units do."""

    phase: str = ""
    specName: str = ""
    lifecycle: str = ""
    tenant: str = ""


EVERY_UNIT: Final = UnitFilter()


@attrs.frozen(kw_only=True, slots=True)
class LogFilter:
    """A choice of log lines; without one, the present run of the main container is read."""

    tail: int | None = None
    follow: bool = False
    container: str = ""
    sinceSeconds: int | None = None
    previous: bool = False
    timestamps: bool = False


WHOLE_LOG: Final = LogFilter()


class Units:
    """Units; a call that fails raises ClientError."""

    def __init__(self, calls: ResourceCalls) -> None:
        self._calls = calls

    async def create(self, unit: CreateUnit | Mapping[str, Any]) -> Reply[UnitView]:
        document = named(document_of(unit), "operationID")
        return await self._calls.post(path_of(_UNITS), UnitView, document, repeat=Repeat.ALWAYS)

    async def get(self, name: str, *, lifecycle: str = Lifecycle.INSTANCE) -> Reply[UnitView]:
        query = {} if lifecycle == Lifecycle.INSTANCE else {"lifecycle": lifecycle}
        return await self._calls.read(path_of(_UNITS, name), UnitView, query)

    async def page(
        self, only: UnitFilter = EVERY_UNIT, *, limit: int = PAGE_ITEMS, cursor: str = ""
    ) -> Page[UnitView]:
        query = {**attrs.asdict(only), "limit": limit, "cursor": cursor}
        return await self._calls.page(path_of(_UNITS), UnitView, query)

    def list(
        self, only: UnitFilter = EVERY_UNIT, *, limit: int = PAGE_ITEMS
    ) -> AsyncIterator[UnitView]:
        """Yield all matching units by name; `limit` is the size of a page."""

        async def fetch(cursor: str) -> Page[UnitView]:
            return await self.page(only, limit=limit, cursor=cursor)

        return every(fetch)

    async def update(
        self, name: str, change: UpdateUnit | Mapping[str, Any], *, if_match: str = ""
    ) -> Reply[UnitView]:
        """Change a unit; with `if_match`, a reply's `etag`, raise PreconditionError if it has
        changed.
        """
        return await self._calls.put(
            path_of(_UNITS, name), UnitView, document_of(change), if_match=if_match
        )

    async def suspend(self, name: str) -> Reply[UnitView]:
        return await self.update(name, UpdateUnit(suspended=True))

    async def resume(self, name: str) -> Reply[UnitView]:
        return await self.update(name, UpdateUnit(suspended=False))

    async def ticket(
        self, name: str, ticket: CreateTicket | Mapping[str, Any]
    ) -> Reply[TicketView]:
        """Return a ticket, with which its bearer reaches the unit through the gateway."""
        path = path_of(_UNITS, name, "tickets")
        return await self._calls.post(path, TicketView, document_of(ticket), repeat=Repeat.ALWAYS)

    async def revoke_tickets(self, name: str) -> Reply[UnitView]:
        """End all tickets of the unit; a retry may end one that was created in between."""
        path = path_of(_UNITS, name, "tickets", "revoke")
        return await self._calls.post(path, UnitView, repeat=Repeat.ALWAYS)

    async def wake(self, name: str) -> Reply[UnitView]:
        """Resume a suspended unit whose `access.wake` is true."""
        path = path_of(_UNITS, name, "wake")
        return await self._calls.post(path, UnitView, repeat=Repeat.UNDONE)

    async def delete(self, name: str) -> None:
        await self._calls.delete(path_of(_UNITS, name))

    async def event_page(
        self, name: str, *, limit: int = PAGE_ITEMS, cursor: str = ""
    ) -> Page[EventView]:
        path = path_of(_UNITS, name, "events")
        return await self._calls.page(path, EventView, {"limit": limit, "cursor": cursor})

    def events(self, name: str, *, limit: int = PAGE_ITEMS) -> AsyncIterator[EventView]:
        """Yield the unit's Events, the newest first."""

        async def fetch(cursor: str) -> Page[EventView]:
            return await self.event_page(name, limit=limit, cursor=cursor)

        return every(fetch)

    @asynccontextmanager
    async def log(
        self, name: str, only: LogFilter = WHOLE_LOG
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield the pieces of the log; with `follow`, until the container ends."""
        query = {name: value or None for name, value in attrs.asdict(only).items()}
        query["tail"] = only.tail
        request = Request(method="GET", path=path_of(_UNITS, name, "logs"), query=query)
        async with self._calls.transport.stream(request) as stream:
            yield stream.pieces()
