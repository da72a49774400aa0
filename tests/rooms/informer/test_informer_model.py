"""Any writes, faults and gaps: afterwards the store equals the server, and all was announced."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

import looptime
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.rooms.informer.fronts import DirectTransport
from tests.rooms.informer.harness import Followed
from tests.rooms.informer.model import (
    Answer,
    ModelServer,
    Query,
    Script,
    error_event,
    hang,
    refuse,
    say,
    whole,
)

T = TypeVar("T")
NAMES = st.sampled_from(["anvil", "bellows", "chisel"])
SIZES = st.integers(min_value=0, max_value=9)
SECONDS = st.sampled_from([0.0, 0.1, 1.0, 10.0, 80.0, 400.0])
# Longer than the longest back-off and a silent connection together.
QUIET_SECONDS = 200.0


def first_events_then(*, is_reset: bool) -> Script:
    """Script a correct stream that breaks in the middle of its third event."""

    async def stream(server: ModelServer, query: Query) -> AsyncIterator[bytes]:
        count = 0
        async for line in server.events(query):
            count += 1
            if count == 3:
                yield line[:20]
                break
            yield line
        if is_reset:
            raise ConnectionResetError

    return lambda server, query: Answer(chunks=stream(server, query))


def repeated_events(server: ModelServer, query: Query) -> Answer:
    """Send an event first that the informer has already received."""
    known = int(query["resourceVersion"])
    replayed = [each.line for each in server.history if known - 5 <= each.version <= known]

    async def stream() -> AsyncIterator[bytes]:
        for line in replayed:
            yield line
        async for line in server.events(query):
            yield line

    return Answer(chunks=stream())


FAULTS = {
    "watch": [
        say(),
        hang(),
        say(error_event(410, "Expired")),
        say(error_event(500, "InternalError")),
        say(b"<html>\n"),
        refuse(410, "Expired"),
        refuse(429, "TooManyRequests", **{"Retry-After": "2"}),
        refuse(500, "InternalError"),
        first_events_then(is_reset=False),
        first_events_then(is_reset=True),
        repeated_events,
    ],
    "list": [
        refuse(410, "Expired"),
        refuse(429, "TooManyRequests"),
        refuse(403, "Forbidden"),
        lambda *_: whole(b'{"kind": "ThingLi'),
    ],
}


class InformerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = looptime.new_event_loop()
        self.server = ModelServer()
        self.transport = DirectTransport(self.server)
        self.followed = Followed(self.transport)
        self.task = self.loop.create_task(self.followed.informer.run())

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(coroutine)

    @rule(name=NAMES, size=SIZES, is_ours=st.booleans())
    def put(self, name: str, size: int, is_ours: bool) -> None:
        async def write() -> None:
            document = self.server.put(name, size=size)
            if is_ours:
                self.followed.write(document)

        self.run(write())

    @rule(name=NAMES, size=SIZES, seconds=SECONDS)
    def put_and_hear_of_it_late(self, name: str, size: int, seconds: float) -> None:
        """Deliver the answer to a write late; it must not replace a newer version."""

        async def write() -> None:
            document = self.server.put(name, size=size)
            await asyncio.sleep(seconds)
            self.followed.write(document)

        self.run(write())

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        async def write() -> None:
            if any(key.name == name for key in self.server.objects):
                self.server.delete(name)

        self.run(write())

    @rule(fault=st.sampled_from(FAULTS["watch"]))
    def break_the_next_watch(self, fault: Script) -> None:
        self.server.script("watch", fault)

    @rule(fault=st.sampled_from(FAULTS["list"]))
    def break_the_next_list(self, fault: Script) -> None:
        self.server.script("list", fault)

    @rule()
    def compact(self) -> None:
        self.server.compact()

    @rule(is_down=st.booleans())
    def refuse_connections(self, is_down: bool) -> None:
        self.transport.is_down = is_down

    @rule(seconds=st.sampled_from([0.0, 5.0, 40.0]))
    def delay_events(self, seconds: float) -> None:
        self.server.lag_seconds = seconds

    @rule(seconds=SECONDS)
    def pass_time(self, seconds: float) -> None:
        self.run(asyncio.sleep(seconds))

    @invariant()
    def the_last_announced_is_what_the_store_holds_once_synced(self) -> None:
        self.run(asyncio.sleep(0.001))
        if self.followed.informer.synced.is_set():
            assert self.followed.heard.last == dict(self.followed.informer.store.items())

    def teardown(self) -> None:
        try:
            self.transport.is_down = False
            self.server.lag_seconds = 0
            for scripts in self.server.scripts.values():
                scripts.clear()
            self.run(asyncio.sleep(QUIET_SECONDS))
            assert not self.task.done()
            assert self.followed.view() == self.server.truth()
            assert self.followed.heard.last == dict(self.followed.informer.store.items())
        finally:
            self.task.cancel()
            self.run(asyncio.wait([self.task]))
            self.run(self.loop.shutdown_asyncgens())
            self.loop.close()


TestInformer = InformerMachine.TestCase
TestInformer.settings = settings(max_examples=100, stateful_step_count=30)
