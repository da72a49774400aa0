"""The broker as an outside observer sees it: it reads and declares nothing."""

import zlib
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Any, TypeVar

import attrs

from gpuruntime.bus.connection import Connection
from gpuruntime.bus.errors import BusError
from gpuruntime.bus.jetstream import JetStream
from gpuruntime.bus.messages import Record, read
from gpuruntime.bus.names import Names
from gpuruntime.bus.records import Records, StoredRecord
from gpuruntime.bus.session import Message
from tests.eventually import equals, eventually
from tests.proofs.function_chain.chain import PREFIX
from tests.rooms.bus.broker import connection

T = TypeVar("T")


@attrs.frozen(slots=True)
class Onlooker:
    connection: Connection
    jetstream: JetStream
    names: Names
    records: Records
    # Every invocation's message that was seen on its way into the queue.
    sent: list[Message]
    # Every record that was seen being written.
    written: list[Record]

    def ends(self) -> dict[str, set[str]]:
        """Return all ends of an invocation that were seen."""
        ends: defaultdict[str, set[str]] = defaultdict(set)
        for record in self.written:
            if record.state.is_terminal:
                ends[record.invocationID].add(record.token)
        return ends

    def course_of(self, name: str) -> list[str]:
        return [
            f"{record.state} {record.attempt} {record.workerName} #{record.sequence}"
            for record in self.written
            if record.invocationID == name
        ]

    async def read(self, function: str, name: str) -> StoredRecord:
        stored = await insist(lambda: self.records.read(function, name))
        assert stored is not None, name
        return stored

    async def messages_in(self, stream: str) -> int:
        info: Any = await insist(lambda: self.jetstream.call(f"STREAM.INFO.{stream}"))
        return int(info["state"]["messages"])

    async def consumers_of(self, stream: str) -> int:
        info: Any = await insist(lambda: self.jetstream.call(f"STREAM.INFO.{stream}"))
        return int(info["state"]["consumer_count"])

    async def send_again(self, message: Message) -> None:
        """Publish an old message again, after the broker has forgotten its id."""
        copy = f"copy of {zlib.crc32(message.data)}"
        await self.jetstream.publish(
            message.subject, message.data, message_id=copy, ttl_seconds=60
        )

    async def delete_consumer(self, function: str) -> None:
        """Delete the consumer; it may be gone already, or the broker unreachable."""
        with suppress(BusError):
            await self.jetstream.call(f"CONSUMER.DELETE.{self.names.invocations}.{function}")

    async def until_empty(self, *, within_seconds: float = 60.0) -> None:
        await eventually(
            lambda: self.messages_in(self.names.invocations),
            equals(0),
            within_seconds=within_seconds,
            poll_seconds=0.1,
        )


@asynccontextmanager
async def onlooker(url: str) -> AsyncIterator[Onlooker]:
    names = Names(PREFIX)
    async with connection(url) as connected:
        jetstream = JetStream(connected)
        records = Records(jetstream, names, rng=Random(3))
        sent: list[Message] = []
        written: list[Record] = []
        async with (
            connected.listening(f"{PREFIX}.invoke.*", sent.append),
            connected.listening(
                f"{PREFIX}.changed.*.*", lambda message: written.append(read(message.data, Record))
            ),
        ):
            yield Onlooker(connected, jetstream, names, records, sent, written)


async def insist(ask: Callable[[], Awaitable[T]]) -> T:
    """Retry until it succeeds: a killed broker is back in a moment."""
    return await eventually(
        ask, lambda _: True, within_seconds=60, poll_seconds=0.1, despite=BusError
    )
