"""Programs in units and connections to their ports, through the gateway that the API names."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final
from urllib.parse import urlencode, urlsplit

from gpuruntime.client.errors import AccessDeniedError, UnusableInputError
from gpuruntime.client.processes import Process, TerminalSize
from gpuruntime.client.transport import Transport
from gpuruntime.client.tunnels import Dial, Tell, Tunnel, listening
from gpuruntime.client.units import Units
from gpuruntime.client.web_socket import WebSocket
from gpuruntime.models.kubernetes.exec_streams import PROTOCOL
from gpuruntime.models.requests.tickets import MOST_SECONDS, CreateTicket, Use
from gpuruntime.models.views.tickets import TicketView

# A gateway refuses a ticket with this code; a new one may count.
_TICKET_REFUSED: Final = "ticket_refused"


def _say_nothing(_: str) -> None:
    return


class Reach:
    """Ways into running units. Each gets tickets of its own, which end with `seconds`."""

    def __init__(self, units: Units, transport: Transport) -> None:
        self._units = units
        self._transport = transport

    @asynccontextmanager
    async def exec(
        self,
        unit: str,
        command: Sequence[str] = (),
        *,
        terminal: TerminalSize | None = None,
        seconds: int = MOST_SECONDS,
    ) -> AsyncIterator[Process]:
        """Run a program, or the login shell; the end of the block ends its streams."""
        query: list[tuple[str, str]] = [("command", each) for each in command]
        if terminal is not None:
            query += [("tty", "true"), ("columns", str(terminal.columns))]
            query += [("rows", str(terminal.rows))]
        tickets = TicketSource(self._units, unit, CreateTicket(uses=(Use.EXEC,), seconds=seconds))
        view = await tickets.current()
        url = _with_query(view.execURL, query)
        async with self._transport.web_socket(url, view.ticket, protocol=PROTOCOL) as socket:
            yield Process(socket, unit)

    @asynccontextmanager
    async def forward(
        self,
        unit: str,
        port: str | int,
        *,
        local_port: int = 0,
        tell: Tell = _say_nothing,
        seconds: int = MOST_SECONDS,
    ) -> AsyncIterator[int]:
        """Yield the local port at which the unit's port is reached; 0 takes a free one.

        A connection that fails ends alone, and `tell` gets the reason.
        """
        request = CreateTicket(uses=(Use.FORWARD,), port=str(port), seconds=seconds)
        tickets = TicketSource(self._units, unit, request)
        await tickets.current()  # so that an unknown unit or port is an error at once
        dial: Dial = lambda: self._tunnel(tickets, port)  # noqa: E731
        async with listening(local_port, dial, tell) as listens_at:
            yield listens_at

    @asynccontextmanager
    async def ssh(self, unit: str, *, seconds: int = MOST_SECONDS) -> AsyncIterator[Tunnel]:
        """Yield a connection to the SSH server of the gateway, for this unit."""
        view = await self.ssh_ticket(unit, seconds=seconds)
        async with self._transport.web_socket(view.sshURL, view.ticket) as socket:
            yield Tunnel(socket, f"SSH of unit {unit}")

    async def ssh_ticket(self, unit: str, *, seconds: int = MOST_SECONDS) -> TicketView:
        request = CreateTicket(uses=(Use.SSH,), seconds=seconds)
        return (await self._units.ticket(unit, request)).data

    @asynccontextmanager
    async def _tunnel(self, tickets: "TicketSource", port: str | int) -> AsyncIterator[Tunnel]:
        async with AsyncExitStack() as stack:
            socket = await self._socket_with(tickets, stack)
            yield Tunnel(socket, f"port {port} of unit {tickets.unit}")

    async def _socket_with(self, tickets: "TicketSource", stack: AsyncExitStack) -> WebSocket:
        """Connect with the present ticket, and once more with a new one if it counts no more."""
        view = await tickets.current()
        try:
            opening = self._transport.web_socket(view.forwardURL, view.ticket)
            return await stack.enter_async_context(opening)
        except AccessDeniedError as error:
            if error.code != _TICKET_REFUSED:
                raise
        tickets.drop(view)
        view = await tickets.current()
        opening = self._transport.web_socket(view.forwardURL, view.ticket)
        return await stack.enter_async_context(opening)


class TicketSource:
    """Keeps a ticket, and gets the next one after half of its life.

    A connection ends with the ticket that it was opened with, so each lasts at least that long.
    """

    def __init__(self, units: Units, unit: str, request: CreateTicket) -> None:
        self.unit = unit
        self._units = units
        self._request = request
        self._lock = asyncio.Lock()
        self._current: TicketView | None = None
        self._renew_at = 0.0

    async def current(self) -> TicketView:
        clock = asyncio.get_running_loop().time
        async with self._lock:
            if self._current is None or clock() >= self._renew_at:
                self._renew_at = clock() + self._request.seconds / 2
                self._current = (await self._units.ticket(self.unit, self._request)).data
            return self._current

    def drop(self, view: TicketView) -> None:
        """Use this ticket no more, unless it has been replaced already."""
        if self._current is view:
            self._current = None


def _with_query(url: str, query: list[tuple[str, str]]) -> str:
    try:
        text = urlencode(query, errors="strict")
    except UnicodeEncodeError as error:
        raise UnusableInputError(
            "the command contains what is no UTF-8: send it through its input"
        ) from error
    if not text:
        return url
    return f"{url}{'&' if urlsplit(url).query else '?'}{text}"
