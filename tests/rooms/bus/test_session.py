"""A session loses no cancellation, although its library may swallow one."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
from nats.aio.subscription import Subscription as NatsSubscription

from gpuruntime.bus.credentials import ConnectionOptions
from gpuruntime.bus.session import Reader, Session, Subscription, open_session
from tests.options import configured


class Library:
    """A client whose calls wait for an answer with a timeout, as the library does."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.at_end: Callable[[], None] = lambda: None

    async def publish(self, *_: object, **__: object) -> None:
        await self._answered()

    async def subscribe(self, *_: object, **__: object) -> Any:
        await self._answered()
        return self

    async def drain(self) -> None:
        await self._answered()

    async def close(self) -> None:
        await self._answered()

    async def _answered(self) -> None:
        await asyncio.wait_for(self.answer, 10)


async def publishes(session: Session, _: Library) -> None:
    await session.publish("subject", b"")


async def subscribes(session: Session, _: Library) -> None:
    await session.subscribe("subject", lambda _: None)


async def closes(session: Session, _: Library) -> None:
    await session.close()


async def unsubscribes(_: Session, library: Library) -> None:
    await Subscription(cast(NatsSubscription, library)).close()


Call = Callable[[Session, Library], Awaitable[None]]


def session_on(library: Library) -> Session:
    options = configured(ConnectionOptions, url="nats://nowhere", name="one")
    return Session(cast(Reader, library), options)


@pytest.mark.parametrize("call", [publishes, subscribes, closes, unsubscribes])
async def test_an_answer_at_the_moment_of_a_cancellation_does_not_undo_it(call: Call) -> None:
    library = Library()
    session = session_on(library)

    async def works() -> None:
        await call(session, library)
        await asyncio.sleep(10)

    task = asyncio.create_task(works())
    await asyncio.sleep(0.01)
    library.answer.set_result(None)
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0.01)
    assert task.cancelled()


async def test_a_call_that_outlasts_its_callers_timeout_raises_that_timeout() -> None:
    """A timeout is a cancellation too, and belongs to the caller that set it."""
    library = Library()
    session = session_on(library)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await publishes(session, library)


async def test_a_subscription_ends_after_the_broker_has_received_all_that_was_sent() -> None:
    """The answer to a PING that overtakes them would not confirm them."""
    received: list[bytes] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"version":"2.12.0","max_payload":1000}\r\n')
        async for line in reader:
            received.append(line.split()[0])
            if line == b"PING\r\n":
                writer.write(b"PONG\r\n")
        writer.close()

    async with await asyncio.start_server(connected, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        session = await open_session(
            configured(ConnectionOptions, url=f"nats://127.0.0.1:{port}", name="test")
        )
        subscription = await session.subscribe("a", lambda _: None)
        await session.publish("a", b"1")
        await subscription.close()
        await session.close()
    assert received[-5:] == [b"SUB", b"PUB", b"1", b"UNSUB", b"PING"]
