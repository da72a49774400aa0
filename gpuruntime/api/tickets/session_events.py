"""Events of a unit's tickets and wakes, which the api records because a gateway writes nothing.

Anyone who reaches a gateway can be refused there, so the refusals of a gateway are only counted.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from gpuruntime.kube.events import Note
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.views.tickets import TicketView

COMPONENT: Final = "gpuruntime-api"
# A unit gets one Event of a reason in this time, over all replicas of the api.
SECONDS_PER_EVENT: Final = 60

RecordOfUnit: TypeAlias = Callable[[GPUUnit, Note], None]


def ticket_note(ticket: TicketView, caller: str, label: str) -> Note:
    """Return the Event of a new ticket, which names its caller and never the ticket."""
    named = f" ({label})" if label else ""
    return Note("SessionOpened", f"{_subject(caller)} has a ticket for {_list(ticket)}{named}")


def refusal_note(why: str, caller: str) -> Note:
    return Note("SessionRefused", f"{_subject(caller)} gets no ticket: {why}", is_warning=True)


def wake_note(caller: str) -> Note:
    """Return the Event of a resumed unit; without a caller, a request to the gateway did it."""
    by = _subject(caller) if caller else "a request to the gateway"
    return Note("Woken", f"{by} has resumed the unit")


def ignore(_: GPUUnit, __: Note) -> None:
    """Record nothing: there is no cluster."""


def _subject(caller: str) -> str:
    return caller or "a caller"


def _list(ticket: TicketView) -> str:
    return ", ".join(str(use) for use in ticket.uses)
