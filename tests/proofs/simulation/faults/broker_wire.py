"""The connection of one process to the broker, which may be slow, cut or silent, or lose messages.

A connection keeps the order of its messages. A message that was sent arrives even if its sender
has crashed.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final

from gpuruntime.bus.connection import Opener
from tests.proofs.broker_conformance.clients import opener
from tests.proofs.broker_conformance.server import Envelope, Server
from tests.proofs.simulation.event_log import EventLog
from tests.proofs.simulation.faults.kinds import BrokerFaultKind, PlannedFault

BROKER_URL: Final = "nats://broker:4222"
LATENCY: Final = (0.0005, 0.01)
# The client closes its connection when a third ping is due after two unanswered ones.
GIVEN_UP_SECONDS: Final = 25.0
# The subject of the connection's own messages, which no fault hits individually.
OWN_SUBJECT: Final = ""
INCOMING: Final = frozenset({BrokerFaultKind.DELIVERY_LOST})


class ActiveBrokerFaults:
    """The broker faults of one process through all of its sessions, or of all workers together."""

    def __init__(self) -> None:
        self.armed: list[PlannedFault] = []
        self.away_until = 0.0
        self.silent_until = 0.0
        self.wires: dict[BrokerWire, None] = {}

    def begin(self, fault: PlannedFault) -> None:
        """Begin a fault whose time has come."""
        now = asyncio.get_running_loop().time()
        match fault.kind:
            case BrokerFaultKind.SESSION_LOST:
                self._lose_sessions()
            case BrokerFaultKind.BROKER_AWAY:
                self.away_until = now + fault.seconds
                self._lose_sessions()
            case BrokerFaultKind.BROKER_SILENT:
                self.silent_until = now + fault.seconds
                asyncio.get_running_loop().call_later(GIVEN_UP_SECONDS, self._lose_silent_sessions)
            case _:
                self.armed.append(fault)

    def clear(self) -> None:
        self.armed.clear()
        self.away_until = self.silent_until = 0.0

    def hit(self, envelope: Envelope, *, is_incoming: bool) -> PlannedFault | None:
        for fault in self.armed:
            is_meant = (fault.kind in INCOMING) is is_incoming and fault.aim in envelope.subject
            needs_reply = fault.kind is BrokerFaultKind.REPLY_LOST
            if (
                envelope.subject != OWN_SUBJECT
                and is_meant
                and (envelope.reply or not needs_reply)
            ):
                self.armed.remove(fault)
                return fault
        return None

    def _lose_silent_sessions(self) -> None:
        if asyncio.get_running_loop().time() < self.silent_until:
            self._lose_sessions()

    def _lose_sessions(self) -> None:
        for wire in tuple(self.wires):
            wire.lose_sessions()


class BrokerWire:
    """Connections of one incarnation of a process, which opens one session after the other."""

    def __init__(
        self,
        name: str,
        server: Server,
        event_log: EventLog,
        *,
        rng: Random,
        active_faults: ActiveBrokerFaults,
    ) -> None:
        self.is_cut = False
        self.active_faults = active_faults
        self._name = name
        self._server = server
        self._event_log = event_log
        self._rng = rng
        self._links: dict[_Link, None] = {}
        active_faults.wires[self] = None

    def opener(self) -> Opener:
        return opener(self._server, self._link, self._name)

    def cut(self) -> None:
        """End all connections as if the process was killed: its later messages are not sent."""
        self.is_cut = True
        self.lose_sessions()
        self.active_faults.wires.pop(self, None)

    def lose_sessions(self) -> None:
        for link in tuple(self._links):
            link.lose()

    def latency(self) -> float:
        return self._rng.uniform(*LATENCY)

    def forget(self, link: "_Link") -> None:
        self._links.pop(link, None)

    def note(self, fault: PlannedFault, envelope: Envelope) -> None:
        self._event_log.write(self._name, f"{envelope.subject} !{fault.kind}")

    def _link(self) -> "_Link":
        made = _Link(self)
        self._links[made] = None
        return made


class _Link:
    def __init__(self, wire: BrokerWire) -> None:
        self._wire = wire
        self._lost: Callable[[], None] = lambda: None
        self._is_closed = False
        # When the last message in each direction arrives; later messages arrive after it.
        self._outgoing_until = self._incoming_until = 0.0
        # Inboxes whose next message is lost.
        self._muted: set[str] = set()

    async def open(self, lost: Callable[[], None]) -> None:
        self._lost = lost
        active_faults = self._wire.active_faults
        await asyncio.sleep(2 * self._wire.latency())
        if self._wire.is_cut or asyncio.get_running_loop().time() < active_faults.away_until:
            raise OSError("refused")

    def send(self, envelope: Envelope, arrive: Callable[[], None]) -> None:
        if self._wire.is_cut:
            return
        fault = self._wire.active_faults.hit(envelope, is_incoming=False)
        if fault is not None:
            self._wire.note(fault, envelope)
        match fault.kind if fault else None:
            case BrokerFaultKind.REQUEST_LOST:
                return
            case BrokerFaultKind.REPLY_LOST:
                self._muted.add(envelope.reply)
            case _:
                pass
        late = fault.seconds if fault else 0.0
        self._outgoing_until = self._after(self._outgoing_until, late)
        asyncio.get_running_loop().call_at(self._outgoing_until, arrive)

    def hear(self, envelope: Envelope, arrive: Callable[[], None]) -> None:
        if envelope.subject in self._muted:
            self._muted.remove(envelope.subject)
            return
        fault = self._wire.active_faults.hit(envelope, is_incoming=True)
        if fault is not None:
            self._wire.note(fault, envelope)
            return
        self._incoming_until = self._after(self._incoming_until, 0.0)
        asyncio.get_running_loop().call_at(self._incoming_until, self._deliver, arrive)

    def close(self) -> None:
        self._is_closed = True
        self._wire.forget(self)

    def lose(self) -> None:
        self._lost()

    def _after(self, last: float, late: float) -> float:
        """Return the arrival time: after earlier messages, and after any silence has ended."""
        at = asyncio.get_running_loop().time() + self._wire.latency() + late
        return max(at, last + 1e-6, self._wire.active_faults.silent_until)

    def _deliver(self, arrive: Callable[[], None]) -> None:
        if not self._is_closed and not self._wire.is_cut:
            arrive()
