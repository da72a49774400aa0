"""The way of one process to the broker: late, cut, silent, and losing a message now and then.

A connection keeps the order of what it carries. What was sent arrives even if its sender is dead.
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
# Two pings that nobody answers, ten seconds apart, and a third that is never sent.
GIVEN_UP_SECONDS: Final = 25.0
# One of the connection's own, to which nothing happens alone.
OWN: Final = ""
HEARD: Final = frozenset({BrokerFaultKind.DELIVERY_LOST})


class ActiveBrokerFaults:
    """Of one process, through all of its restarts and sessions; or of all workers together."""

    def __init__(self) -> None:
        self.armed: list[PlannedFault] = []
        self.away_until = 0.0
        self.silent_until = 0.0
        self.wires: dict[BrokerWire, None] = {}

    def begin(self, fault: PlannedFault) -> None:
        """Its moment has come."""
        now = asyncio.get_running_loop().time()
        match fault.kind:
            case BrokerFaultKind.SESSION_LOST:
                self._lose_sessions()
            case BrokerFaultKind.BROKER_AWAY:
                self.away_until = now + fault.seconds
                self._lose_sessions()
            case BrokerFaultKind.BROKER_SILENT:
                self.silent_until = now + fault.seconds
                asyncio.get_running_loop().call_later(GIVEN_UP_SECONDS, self._give_up)
            case _:
                self.armed.append(fault)

    def clear(self) -> None:
        self.armed.clear()
        self.away_until = self.silent_until = 0.0

    def hit(self, envelope: Envelope, *, is_heard: bool) -> PlannedFault | None:
        for fault in self.armed:
            is_meant = (fault.kind in HEARD) is is_heard and fault.aim in envelope.subject
            needs_reply = fault.kind is BrokerFaultKind.REPLY_LOST
            if envelope.subject != OWN and is_meant and (envelope.reply or not needs_reply):
                self.armed.remove(fault)
                return fault
        return None

    def _give_up(self) -> None:
        if asyncio.get_running_loop().time() < self.silent_until:
            self._lose_sessions()

    def _lose_sessions(self) -> None:
        for wire in tuple(self.wires):
            wire.lose_sessions()


class BrokerWire:
    """Of one incarnation of a process: it makes its sessions, one after the other."""

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
        """As of a killed process: its connections end, and nobody hears of what it does then."""
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
        # Until when what is under way holds up what comes behind it.
        self._sent_until = self._heard_until = 0.0
        # Inboxes of which the next message is lost.
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
        fault = self._wire.active_faults.hit(envelope, is_heard=False)
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
        self._sent_until = self._after(self._sent_until, late)
        asyncio.get_running_loop().call_at(self._sent_until, arrive)

    def hear(self, envelope: Envelope, arrive: Callable[[], None]) -> None:
        if envelope.subject in self._muted:
            self._muted.remove(envelope.subject)
            return
        fault = self._wire.active_faults.hit(envelope, is_heard=True)
        if fault is not None:
            self._wire.note(fault, envelope)
            return
        self._heard_until = self._after(self._heard_until, 0.0)
        asyncio.get_running_loop().call_at(self._heard_until, self._pass, arrive)

    def close(self) -> None:
        self._is_closed = True
        self._wire.forget(self)

    def lose(self) -> None:
        self._lost()

    def _after(self, last: float, late: float) -> float:
        """Behind what went before it, and not while nothing comes through."""
        at = asyncio.get_running_loop().time() + self._wire.latency() + late
        return max(at, last + 1e-6, self._wire.active_faults.silent_until)

    def _pass(self, arrive: Callable[[], None]) -> None:
        if not self._is_closed and not self._wire.is_cut:
            arrive()
