import asyncio
from operator import not_

import pytest

from gpuruntime.bus.errors import (
    FullError,
    MissingError,
    OutcomeUnknownError,
    UnavailableError,
    WrongSequenceError,
)
from gpuruntime.bus.jetstream import JetStream
from gpuruntime.models.encoding.json import JsonObject
from tests.eventually import eventually
from tests.rooms.bus.broker import Broker, Bus, bus, connection


async def stream(jetstream: JetStream, name: str, **config: object) -> None:
    chosen: JsonObject = {"name": name, "subjects": [f"{name}.>"], **config}  # type: ignore[dict-item]  # plain JSON
    await jetstream.call(f"STREAM.CREATE.{name}", chosen)


async def test_a_message_with_the_same_id_is_stored_once(declared: Bus) -> None:
    subject = declared.names.invoke("echo")
    first = await declared.jetstream.publish(subject, b"1", message_id="a")
    again = await declared.jetstream.publish(subject, b"1", message_id="a")
    assert not first.is_duplicate
    assert again.is_duplicate
    assert again.sequence == first.sequence


async def test_a_publish_during_an_outage_is_stored_once_when_the_broker_is_back(
    own: Broker,
) -> None:
    async with bus(own.url, "outage") as made, asyncio.TaskGroup() as tasks:
        own.kill()
        await eventually(lambda: made.connection.is_connected, not_)
        subject = made.names.invoke("echo")
        stored = tasks.create_task(made.jetstream.publish(subject, b"1", message_id="a"))
        await asyncio.sleep(0)
        own.start()
        first = await stored
        assert (await made.jetstream.publish(subject, b"1", message_id="a")).is_duplicate
        assert first.sequence == 1


async def test_a_publish_that_was_never_sent_is_known_not_to_be_stored(own: Broker) -> None:
    async with connection(own.url) as made:
        own.kill()
        await eventually(lambda: made.is_connected, not_)
        with pytest.raises(UnavailableError, match="not stored in"):
            await JetStream(made).publish("a", b"1", message_id="a", within_seconds=0.3)


async def test_a_publish_whose_answer_was_lost_may_be_stored(own: Broker) -> None:
    async with bus(own.url, "lost") as made:
        own.pause()
        with pytest.raises(OutcomeUnknownError):
            await made.jetstream.publish(
                made.names.invoke("echo"), b"1", message_id="a", within_seconds=0.3
            )
        own.resume()
        await eventually(lambda: made.connection.is_connected)
        again = await made.jetstream.publish(made.names.invoke("echo"), b"1", message_id="a")
        assert again.is_duplicate


async def test_a_full_stream_rejects_messages_and_drops_none(declared: Bus) -> None:
    jetstream = declared.jetstream
    await stream(jetstream, "full", discard="new", max_msgs=1, storage="memory")
    first = await jetstream.publish("full.a", b"1", message_id="1")
    with pytest.raises(FullError, match="maximum messages"):
        await jetstream.publish("full.a", b"2", message_id="2")
    info = await jetstream.call("STREAM.INFO.full")
    assert first.sequence == 1
    assert info["state"]["messages"] == 1  # type: ignore[index,call-overload]  # plain JSON


async def test_no_more_publishes_are_in_flight_than_allowed(shared: Broker) -> None:
    async with connection(shared.url) as made, asyncio.TaskGroup() as tasks:
        seen: list[int] = []
        waiting: list[str] = []

        def note(reply: str) -> None:
            waiting.append(reply)
            seen.append(len(waiting))

        jetstream = JetStream(made, most_in_flight=3)
        async with made.listening("slow", lambda message: note(message.reply)):
            publishes = [
                tasks.create_task(jetstream.publish("slow", b"", message_id=str(number)))
                for number in range(9)
            ]
            for _ in publishes:
                await eventually(lambda: waiting)
                await made.publish(waiting.pop(0), b'{"stream":"s","seq":1}')
                await asyncio.sleep(0.01)
            await asyncio.wait(publishes)
        assert len(seen) == 9
        assert max(seen) <= 3


async def test_a_publish_that_waits_for_others_times_out(shared: Broker) -> None:
    async with connection(shared.url) as made, asyncio.TaskGroup() as tasks:
        jetstream = JetStream(made, most_in_flight=1)
        async with made.listening("silent", lambda _: None):
            first = tasks.create_task(jetstream.publish("silent", b"", message_id="1"))
            await asyncio.sleep(0)
            with pytest.raises(UnavailableError, match=r"not stored in 0\.2 s"):
                async with asyncio.timeout(2):
                    await jetstream.publish("silent", b"", message_id="2", within_seconds=0.2)
            first.cancel()


async def test_an_empty_subject_differs_from_a_missing_stream(
    declared: Bus,
) -> None:
    names = declared.names
    assert await declared.jetstream.last(names.states, names.state("echo", "none")) is None
    with pytest.raises(UnavailableError):
        await declared.jetstream.last("NOWHERE", "a")
    with pytest.raises(MissingError, match="stream not found"):
        await declared.jetstream.call("STREAM.INFO.NOWHERE")


async def test_a_refusal_reports_the_current_sequence(declared: Bus) -> None:
    subject = declared.names.state("echo", "1")
    first = await declared.jetstream.publish(subject, b"1", expected_sequence=0)
    with pytest.raises(WrongSequenceError) as caught:
        await declared.jetstream.publish(subject, b"1", expected_sequence=0)
    assert caught.value.last_sequence == first.sequence


async def test_a_message_with_a_ttl_expires(declared: Bus) -> None:
    subject = declared.names.state("echo", "short")
    await declared.jetstream.publish(subject, b"1", expected_sequence=0, ttl_seconds=0.2)
    assert await declared.jetstream.last(declared.names.states, subject) is not None
    await asyncio.sleep(2.5)
    assert await declared.jetstream.last(declared.names.states, subject) is None


async def test_a_deleted_message_is_gone_and_deleting_it_again_is_refused(declared: Bus) -> None:
    names = declared.names
    stored = await declared.jetstream.publish(names.invoke("echo"), b"1", message_id="d")
    await declared.jetstream.delete(names.invocations, stored.sequence)
    with pytest.raises(MissingError):
        await declared.jetstream.delete(names.invocations, stored.sequence)


async def test_messages_of_a_subject_are_read_in_order_and_others_are_skipped(
    declared: Bus,
) -> None:
    jetstream, names = declared.jetstream, declared.names
    first = await jetstream.publish(names.dead_letter("a", "x"), b"\xff1")
    await jetstream.publish(names.dead_letter("b", "y"), b"2")
    await jetstream.publish(names.dead_letter("a", "z"), b"3")
    of_a, stream = f"{names.prefix}.dlq.a.*", names.dead_letters
    found = await jetstream.following(stream, of_a)
    assert found is not None
    assert (found.subject, found.data) == (names.dead_letter("a", "x"), b"\xff1")
    assert found.sequence == first.sequence
    second = await jetstream.following(stream, of_a, after=found.sequence)
    assert second is not None
    assert second.data == b"3"
    assert await jetstream.following(stream, of_a, after=second.sequence) is None


async def test_the_leader_returns_the_last_message_or_none(declared: Bus) -> None:
    jetstream, names = declared.jetstream, declared.names
    subject = names.state("echo", "one")
    assert await jetstream.latest(names.states, subject) is None
    stored = await jetstream.publish(subject, b"1")
    found = await jetstream.latest(names.states, subject)
    assert found is not None
    assert (found.data, found.sequence) == (b"1", stored.sequence)
