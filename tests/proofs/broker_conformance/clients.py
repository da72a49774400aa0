"""Clients of the in-process broker, with the interface of the library that sessions use.

The session above a client is the product's own. Its messages travel over a link, which may delay
or lose them. A plain link delivers everything in the next turn of the loop.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any, Final, Protocol, cast

import nats.errors
from nats.aio.msg import Msg

from gpuruntime.bus.connection import Opener
from gpuruntime.bus.session import Reader, open_session
from tests.proofs.broker_conformance.server import NOTHING, Envelope, Server, Subscription

MAX_PAYLOAD: Final = 2 * 1000 * 1000
VERSION: Final = SimpleNamespace(major=2, minor=15)


class Link(Protocol):
    """A link keeps the order in both directions, and delivers nothing after its end."""

    async def open(self, lost: Callable[[], None]) -> None:
        """Connect, or raise OSError if the broker is unreachable; call `lost` at the end."""
        ...

    def send(self, envelope: Envelope, arrive: Callable[[], None]) -> None: ...

    def hear(self, envelope: Envelope, arrive: Callable[[], None]) -> None: ...

    def close(self) -> None: ...


class PlainLink:
    def __init__(self) -> None:
        self._is_open = True

    async def open(self, _: Callable[[], None]) -> None:
        return

    def send(self, _: Envelope, arrive: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(self._pass, arrive)

    def hear(self, _: Envelope, arrive: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(self._pass, arrive)

    def close(self) -> None:
        self._is_open = False

    def _pass(self, arrive: Callable[[], None]) -> None:
        if self._is_open:
            arrive()


class Client:
    connected_server_version = VERSION

    def __init__(self, server: Server, link: Link, name: str) -> None:
        """`name` begins the names of this client's inboxes, and of no other's."""
        self.at_end: Callable[[], None] = lambda: None
        self._server = server
        self._link = link
        self._name = name
        self._inboxes = count(1)
        self._prefix = ""
        self._subscriptions: dict[Subscription, None] = {}
        self._is_closed = False

    async def connect(self, *, inbox_prefix: str, **_: Any) -> None:
        self._prefix = inbox_prefix
        await self._link.open(self._end)

    def new_inbox(self) -> str:
        return f"{self._prefix}.{self._name}-{next(self._inboxes)}"

    async def publish(
        self, subject: str, data: bytes, *, reply: str = "", headers: Any = None
    ) -> None:
        if self._is_closed:
            raise nats.errors.ConnectionClosedError
        if not subject or any(each.isspace() for each in subject):
            raise nats.errors.BadSubjectError
        if len(data) > MAX_PAYLOAD:
            raise nats.errors.MaxPayloadError
        envelope = Envelope(subject, data, reply, headers or NOTHING)
        self._link.send(envelope, partial(self._server.publish, envelope))

    async def subscribe(self, subject: str, cb: Callable[[Msg], Awaitable[None]]) -> "Draining":
        if self._is_closed:
            raise nats.errors.ConnectionClosedError
        made = Subscription(subject, lambda envelope: self._link.hear(envelope, hear(envelope)))

        def hear(envelope: Envelope) -> Callable[[], None]:
            return lambda: None if self._is_closed else _run(cb, envelope)

        self._subscriptions[made] = None
        note = Envelope("", b"")
        self._link.send(note, lambda: self._add(made))
        return Draining(partial(self._drain, made))

    async def close(self) -> None:
        self._end()

    def _add(self, subscription: Subscription) -> None:
        if subscription in self._subscriptions:
            self._server.subscribe(subscription)

    async def _drain(self, subscription: Subscription) -> None:
        """Unsubscribe after receiving everything that the broker has sent so far."""
        done = asyncio.Event()
        note = Envelope("", b"")

        def remove() -> None:
            self._server.unsubscribe(subscription)
            self._link.hear(note, done.set)

        if not self._is_closed:
            self._link.send(note, remove)
            await done.wait()
        self._subscriptions.pop(subscription, None)

    def _end(self) -> None:
        """Remove the subscriptions at the broker and report the end once."""
        if self._is_closed:
            return
        self._is_closed = True
        self._link.close()
        for each in self._subscriptions:
            self._server.unsubscribe(each)
        # Subscriptions that are still being made are abandoned.
        self._subscriptions.clear()
        self.at_end()


class Draining:
    def __init__(self, drain: Callable[[], Awaitable[None]]) -> None:
        self.drain = drain


def opener(server: Server, link: Callable[[], Link], name: str) -> Opener:
    """Return an opener for the sessions of one process; `link` gives each its own."""
    numbers = count(1)

    def client() -> Reader:
        made = Client(server, link(), f"{name}-{next(numbers)}")
        return cast("Reader", made)

    return partial(open_session, client=client)


def _run(callback: Callable[[Msg], Awaitable[None]], envelope: Envelope) -> None:
    """Run a session's callback, which awaits nothing and so ends at once."""
    message = Msg(
        _client=cast("Any", None),
        subject=envelope.subject,
        reply=envelope.reply,
        data=envelope.data,
        headers=dict(envelope.headers) or None,
    )
    try:
        cast("Any", callback(message)).send(None)
    except StopIteration:
        return
    raise RuntimeError("a callback of a session waits for something")
