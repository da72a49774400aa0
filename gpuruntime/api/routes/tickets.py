"""The routes of tickets, and of waking a suspended unit."""

import structlog

from gpuruntime.api.auth.access import Verb, unit_access
from gpuruntime.api.auth.authentication import Guard
from gpuruntime.api.errors import RequestError
from gpuruntime.api.http.routing import (
    READ,
    WRITE,
    Answer,
    Body,
    Call,
    NoQuery,
    Reply,
    Route,
)
from gpuruntime.api.openapi import examples
from gpuruntime.api.routes.units import ETAG, UNIT, shown
from gpuruntime.api.tickets.issuer import OF_CONTAINER, TicketIssuer, parse_create_ticket
from gpuruntime.api.tickets.session_events import (
    RecordOfUnit,
    refusal_note,
    ticket_note,
    wake_note,
)
from gpuruntime.api.tickets.wake_guard import WakeGuard
from gpuruntime.models.requests.tickets import CreateTicket
from gpuruntime.models.views.tickets import TicketView
from gpuruntime.models.views.units import UnitView
from gpuruntime.operations.units import Units

log = structlog.get_logger()


def ticket_routes(
    units: Units, issuer: TicketIssuer, guard: Guard, waking: WakeGuard, record: RecordOfUnit
) -> tuple[Route, ...]:
    """Return the routes; `guard` judges the rights that only the body of a request shows."""
    handlers = _TicketHandlers(units, issuer, guard, record)
    access = unit_access(Verb.CREATE, "tickets")
    return (
        Route(
            method="POST",
            path=f"{UNIT}/tickets",
            name="createTicket",
            access=access,
            handler=handlers.create,
            summary="A ticket with which its bearer reaches a unit through the gateway",
            body=Body(
                model=CreateTicket, parse=parse_create_ticket, example=examples.CREATE_TICKET
            ),
            answers=(
                Answer(
                    status=201,
                    description="The ticket, which is not stored.",
                    model=TicketView,
                ),
            ),
            errors=(*WRITE, "gpuunit_not_found", "gateway_off", "port_unknown", "exec_off"),
        ),
        Route(
            method="POST",
            path=f"{UNIT}/tickets/revoke",
            name="revokeTickets",
            access=access,
            handler=handlers.revoke,
            summary="End all tickets of a unit by raising its access.generation",
            answers=(Answer(status=200, description="The unit.", model=UnitView, headers=ETAG),),
            errors=(*READ, "gpuunit_not_found"),
        ),
        Route(
            method="POST",
            path=f"{UNIT}/wake",
            name="wakeUnit",
            access=unit_access(Verb.UPDATE),
            guard=waking,
            handler=handlers.wake,
            summary="Resume a suspended unit whose access.wake is true",
            answers=(
                Answer(
                    status=202,
                    description="The unit, which is or becomes resumed.",
                    model=UnitView,
                    headers=ETAG,
                ),
            ),
            errors=(*READ, "gpuunit_not_found", "wake_off"),
        ),
    )


class _TicketHandlers:
    def __init__(
        self, units: Units, issuer: TicketIssuer, guard: Guard, record: RecordOfUnit
    ) -> None:
        self._units = units
        self._issuer = issuer
        self._guard = guard
        self._record = record

    async def create(self, call: Call[NoQuery, CreateTicket]) -> Reply:
        if OF_CONTAINER.intersection(call.body.uses):
            await self._guard.demand(call.principal, unit_access(Verb.CREATE, "exec"))
        unit = await self._units.get(call.path("name"), scope=call.scope)
        try:
            name, view = self._issuer.issue(unit, call.body, call.principal.name)
        except RequestError as error:
            self._record(unit, refusal_note(str(error), call.principal.name))
            raise
        self._record(unit, ticket_note(view, call.principal.name, call.body.label))
        log.info(
            "ticket created",
            ticket=name,
            unit=unit.metadata.name,
            uses=[str(use) for use in view.uses],
            until=view.expiresAt.isoformat(),
            label=call.body.label,
        )
        return Reply(status=201, data=view)

    async def revoke(self, call: Call[NoQuery, None]) -> Reply:
        return shown(await self._units.revoke(call.path("name"), call.scope))

    async def wake(self, call: Call[NoQuery, None]) -> Reply:
        uid = call.principal.unit_uid
        unit, was_suspended = await self._units.wake(call.path("name"), call.scope, uid=uid)
        if was_suspended:
            self._record(unit, wake_note("" if uid else call.principal.name))
        return shown(unit, status=202)
