"""The way of one process to the broker: late, cut, silent, and losing an answer now and then.

A connection keeps the order of what it carries. What was sent arrives even if its sender is dead.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final

from gpuruntime.bus.connection import Opener
from tests.jetstream.clients import opener
from tests.jetstream.server import Envelope, Server
from tests.simulate.journal import Journal

BROKER_URL: Final = "nats://broker:4222"
LATENCY: Final = (0.0005, 0.01)


class BrokerWire:
    """Of one incarnation of a process: it makes its sessions, one after the other."""

    def __init__(self, name: str, server: Server, journal: Journal, *, rng: Random) -> None:
        self.is_cut = False
        self._name = name
        self._server = server
        self._journal = journal
        self._rng = rng
        self._links: dict[_Link, None] = {}

    def opener(self) -> Opener:
        return opener(self._server, self._link, self._name)

    def cut(self) -> None:
        """As of a killed process: its connections end, and it is not told."""
        self.is_cut = True
        self.lose_sessions()

    def lose_sessions(self) -> None:
        for link in tuple(self._links):
            link.lose()

    def latency(self) -> float:
        return self._rng.uniform(*LATENCY)

    def forget(self, link: "_Link") -> None:
        self._links.pop(link, None)

    def _link(self) -> "_Link":
        made = _Link(self)
        self._links[made] = None
        return made


class _Link:
    def __init__(self, wire: BrokerWire) -> None:
        self._wire = wire
        self._lost: Callable[[], None] = lambda: None
        self._is_closed = False
        # When the last of what is under way arrives.
        self._sent_at = self._heard_at = 0.0

    async def open(self, lost: Callable[[], None]) -> None:
        await asyncio.sleep(2 * self._wire.latency())
        if self._wire.is_cut:
            raise OSError("refused")
        self._lost = lost

    def send(self, _: Envelope, arrive: Callable[[], None]) -> None:
        if not self._wire.is_cut:
            self._sent_at = self._after(self._sent_at)
            asyncio.get_running_loop().call_at(self._sent_at, arrive)

    def hear(self, _: Envelope, arrive: Callable[[], None]) -> None:
        self._heard_at = self._after(self._heard_at)
        asyncio.get_running_loop().call_at(self._heard_at, self._pass, arrive)

    def close(self) -> None:
        self._is_closed = True
        self._wire.forget(self)

    def lose(self) -> None:
        self._lost()

    def _after(self, last: float) -> float:
        """Behind what went before it."""
        at = asyncio.get_running_loop().time() + self._wire.latency()
        return max(at, last + 1e-6)

    def _pass(self, arrive: Callable[[], None]) -> None:
        if not self._is_closed and not self._wire.is_cut:
            arrive()
