import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import attrs
import pytest

from gpuruntime.bus.chunks import CHUNK_BYTES, Bodies, parts_of
from gpuruntime.bus.delivery import Delivery, delivery_of
from gpuruntime.bus.errors import MalformedMessageError, MissingError
from gpuruntime.bus.provisioning import declare_consumer
from gpuruntime.bus.pull import Pull, PullOptions
from gpuruntime.bus.session import Message
from gpuruntime.bus.streams import consumer_declaration
from gpuruntime.models.encoding.json import JsonValue
from gpuruntime.telemetry.metrics import Registry
from tests.eventually import equals, eventually
from tests.rooms.bus.broker import FUNCTION, Broker, Bus, bus
from tests.rooms.bus.test_records import record

QUICK = PullOptions(expires_seconds=1.0, heartbeat_seconds=0.25, pause_seconds=0.1)


class Puller:
    """Receives deliveries while it has room, and keeps them."""

    def __init__(self, made: Bus, room: int) -> None:
        self.room = room
        self.taken: list[Delivery] = []
        self.metrics = Registry()
        self.pull = Pull(
            made.connection,
            made.names.next_invocation(FUNCTION),
            wanted=lambda: self.room - len(self.taken),
            receive=self.taken.append,
            rng=Random(3),
            options=QUICK,
            meter=self.metrics,
        )

    @property
    def bodies(self) -> list[bytes]:
        return [delivery.data for delivery in self.taken]


@asynccontextmanager
async def pulling(made: Bus, room: int) -> AsyncIterator[Puller]:
    puller = Puller(made, room)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(puller.pull.run())
        yield puller
        running.cancel()


async def send(made: Bus, *bodies: bytes) -> None:
    for body in bodies:
        await made.jetstream.publish(made.names.invoke(FUNCTION), body, message_id=body.decode())


async def in_hand(made: Bus) -> tuple[int, int]:
    """Return how many messages are unacknowledged, and how many requests are open."""
    info = await made.jetstream.call(f"CONSUMER.INFO.{made.names.invocations}.{FUNCTION}")
    return info["num_ack_pending"], info["num_waiting"]  # type: ignore[return-value]  # JSON


async def redeclare(made: Bus, **settings: JsonValue) -> None:
    """Delete the consumer and create it again, with the test's own settings."""
    stream = made.names.invocations
    await made.jetstream.call(f"CONSUMER.DELETE.{stream}.{FUNCTION}")
    again = consumer_declaration(made.names, FUNCTION, ack_wait_seconds=30)
    again = attrs.evolve(again, config={**again.config, **settings})
    await declare_consumer(made.jetstream, stream, again)


async def test_no_more_messages_arrive_than_there_is_room_for(declared: Bus) -> None:
    await send(declared, b"1", b"2", b"3")
    async with pulling(declared, room=2) as puller:
        await eventually(lambda: len(puller.taken), equals(2))
        assert await in_hand(declared) == (2, 0)
        puller.room = 3
        puller.pull.wake()
        await eventually(lambda: len(puller.taken), equals(3))
        assert puller.bodies == [b"1", b"2", b"3"]


async def test_messages_arrive_after_a_request_has_expired(declared: Bus) -> None:
    async with pulling(declared, room=1) as puller:
        await asyncio.sleep(1.6)
        assert b"bus_pulls_lost_total" not in puller.metrics.text()
        assert await in_hand(declared) == (0, 1)
        await send(declared, b"late")
        await eventually(lambda: puller.bodies, equals([b"late"]))


async def test_requests_that_are_no_longer_wanted_are_taken_back(declared: Bus) -> None:
    async with pulling(declared, room=1) as puller:
        await asyncio.sleep(0.2)
        assert await in_hand(declared) == (0, 1)
        puller.room = 0
        puller.pull.wake()
        await asyncio.sleep(0.2)
        await send(declared, b"1")
        assert await in_hand(declared) == (0, 0)
        puller.room = 1
        puller.pull.wake()
        await eventually(lambda: puller.bodies, equals([b"1"]))


async def test_a_recreated_consumer_is_pulled_from_again(declared: Bus) -> None:
    stream = declared.names.invocations
    async with pulling(declared, room=1) as puller:
        await asyncio.sleep(0.1)
        await declared.jetstream.call(f"CONSUMER.DELETE.{stream}.{FUNCTION}")
        await eventually(lambda: puller.pull.problem)
        again = consumer_declaration(declared.names, FUNCTION, ack_wait_seconds=30)
        await declare_consumer(declared.jetstream, stream, again)
        await send(declared, b"1")
        await eventually(lambda: puller.bodies, equals([b"1"]))
        assert puller.pull.problem == ""


async def test_slots_that_become_free_one_by_one_cause_few_requests(declared: Bus) -> None:
    async with pulling(declared, room=1) as puller:
        for room in range(2, 65):
            puller.room = room
            puller.pull.wake()
            await asyncio.sleep(0.001)
        assert (await in_hand(declared))[1] <= 2
        bodies = [str(number).encode() for number in range(64)]
        await send(declared, *bodies)
        await eventually(lambda: puller.bodies, equals(bodies))


async def test_a_request_that_the_broker_dropped_silently_is_repeated(
    declared: Bus,
) -> None:
    await redeclare(declared, max_waiting=1)
    async with pulling(declared, room=1) as puller:
        await asyncio.sleep(0.1)
        puller.room = 2
        puller.pull.wake()
        await eventually(lambda: b"bus_pulls_lost_total" in puller.metrics.text())
        await send(declared, b"1", b"2")
        await eventually(lambda: puller.bodies, equals([b"1", b"2"]))


async def test_a_silent_broker_is_noticed_by_missing_heartbeats(own: Broker) -> None:
    async with bus(own.url, "silent") as made, pulling(made, room=1) as puller:
        await asyncio.sleep(0.1)
        own.pause()
        await eventually(lambda: "heartbeats" in puller.pull.problem)
        own.resume()
        await send(made, b"1")
        await eventually(lambda: puller.bodies, equals([b"1"]))


async def test_pulls_continue_after_a_kill_of_the_broker(own: Broker) -> None:
    """The broker may have forgotten the first delivery and repeat it."""
    async with bus(own.url, "killed") as made, pulling(made, room=3) as puller:
        await send(made, b"1")
        await eventually(lambda: puller.bodies, equals([b"1"]))
        own.kill()
        own.start()
        await send(made, b"2")
        await eventually(lambda: b"2" in puller.bodies)
        assert {*puller.bodies} == {b"1", b"2"}


async def test_a_message_is_redelivered_if_given_back_and_not_if_acknowledged(
    declared: Bus,
) -> None:
    await send(declared, b"1", b"2")
    async with pulling(declared, room=2) as puller:
        await eventually(lambda: len(puller.taken), equals(2))
        first, second = puller.taken
        await first.ack()
        await second.give_back(delay_seconds=0.05)
        puller.room = 3
        puller.pull.wake()
        await eventually(lambda: len(puller.taken), equals(3))
        assert puller.taken[2].data == b"2"
        assert puller.taken[2].sequence == second.sequence
        assert puller.taken[2].count == 2


async def test_a_message_that_is_kept_is_not_redelivered(shared: Broker) -> None:
    async with bus(shared.url, "kept", ack_wait_seconds=0.5) as made:
        await send(made, b"1")
        async with pulling(made, room=1) as holder:
            await eventually(lambda: len(holder.taken), equals(1))
            async with pulling(made, room=1) as other:
                for _ in range(8):
                    await holder.taken[0].keep()
                    await asyncio.sleep(0.15)
                assert not other.taken
                await eventually(lambda: other.bodies, equals([b"1"]))


@pytest.mark.parametrize(
    ("reply", "sequence", "count"),
    [
        ("$JS.ACK.S.c.3.17.21.1795031571779808456.1", 17, 3),
        ("$JS.ACK.domain.account.S.c.3.17.21.1795031571779808456.1.random", 17, 3),
        ("$JS.ACK.domain.account.S.c.3.17.21.1795031571779808456.1", 17, 3),
    ],
)
def test_a_delivery_is_read_from_both_forms_of_the_brokers_reply(
    reply: str, sequence: int, count: int
) -> None:
    delivery = delivery_of(Message("a", b"", reply), None)  # type: ignore[arg-type]  # not used
    assert (delivery.sequence, delivery.count) == (sequence, count)
    assert delivery.stored_at.isoformat() == "2026-11-18T19:52:51.779808+00:00"


@pytest.mark.parametrize("reply", ["", "a.b", "$JS.ACK.S.c.x", "_INBOX.1.2.3.4.5.6.7.8.9"])
def test_a_message_that_no_consumer_delivered_is_malformed(reply: str) -> None:
    with pytest.raises(MalformedMessageError):
        delivery_of(Message("a", b"", reply), None)  # type: ignore[arg-type]  # not used


@pytest.mark.parametrize(
    ("length", "parts"),
    [(0, 0), (CHUNK_BYTES, 0), (CHUNK_BYTES + 1, 2), (2 * CHUNK_BYTES, 2), (5_000_000, 20)],
)
def test_only_a_body_longer_than_a_chunk_is_split(length: int, parts: int) -> None:
    assert parts_of(b"x" * length) == parts


async def test_a_long_body_is_read_back_from_its_parts(declared: Bus) -> None:
    body = Random(4).randbytes(2 * CHUNK_BYTES + 7)
    bodies = Bodies(declared.jetstream, declared.names)
    parts = await bodies.write(record("long"), body, ttl_seconds=60)
    assert await bodies.write(record("long"), body, ttl_seconds=60) == parts == 3
    read = [await bodies.read_part(record("long"), part) for part in range(parts)]
    assert b"".join(read) == body
    with pytest.raises(MissingError, match="this part of the body is gone"):
        await bodies.read_part(record("long"), 3)
