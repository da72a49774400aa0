"""Cases for the real broker and the in-process one, in addition to tests/rooms/bus."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from gpuruntime.bus.batch_reads import Batch, read_batch
from gpuruntime.bus.delivery import Delivery, delivery_of
from gpuruntime.bus.errors import FullError, MissingError, RefusedError, UnavailableError
from gpuruntime.bus.session import Message
from gpuruntime.models.encoding.json import JsonObject
from tests.eventually import equals, eventually
from tests.rooms.bus.broker import FUNCTION, Bus

SECOND = 1_000_000_000
SHORT_WAIT_SECONDS = 0.6


class Inbox:
    """Receives deliveries and status messages of the broker, in order."""

    def __init__(self, made: Bus, name: str) -> None:
        self.name = name
        self.deliveries: list[Delivery] = []
        self.words: list[Message] = []
        self._made = made

    def hear(self, message: Message) -> None:
        if message.status:
            self.words.append(message)
        else:
            self.deliveries.append(delivery_of(message, self._made.connection))

    async def ask(self, function: str = FUNCTION, **asked: Any) -> None:
        request = {"batch": 1, "expires": 20 * SECOND, **asked}
        subject = self._made.names.next_invocation(function)
        await self._made.connection.session.publish(
            subject, json.dumps(request).encode(), reply=self.name
        )

    async def bodies(self, count: int) -> list[bytes]:
        """Wait for this many deliveries and return their bodies."""
        await eventually(lambda: len(self.deliveries) >= count)
        return [each.data for each in self.deliveries]

    async def statuses(self, count: int) -> list[int]:
        await eventually(lambda: len(self.words) >= count)
        return [each.status for each in self.words]


@asynccontextmanager
async def inbox(made: Bus, name: str = "inbox.one") -> AsyncIterator[Inbox]:
    opened = Inbox(made, name)
    async with made.connection.listening(name, opened.hear):
        yield opened


async def send(made: Bus, *bodies: bytes, function: str = FUNCTION) -> None:
    for body in bodies:
        await made.jetstream.publish(made.names.invoke(function), body)


async def info(made: Bus, function: str = FUNCTION) -> dict[str, Any]:
    return await made.jetstream.call(f"CONSUMER.INFO.{made.names.invocations}.{function}")


async def left(made: Bus) -> int:
    told: Any = await made.jetstream.call(f"STREAM.INFO.{made.names.invocations}")
    return int(told["state"]["messages"])


async def waiting(made: Bus) -> int:
    return int((await info(made))["num_waiting"])


async def in_hand(made: Bus) -> int:
    return int((await info(made))["num_ack_pending"])


async def consumer(made: Bus, function: str, *, action: str = "create", **more: Any) -> JsonObject:
    subject, stream = made.names.invoke(function), made.names.invocations
    config = {"name": function, "durable_name": function, "filter_subject": subject}
    return await made.jetstream.call(
        f"CONSUMER.CREATE.{stream}.{function}.{subject}",
        {
            "stream_name": stream,
            "config": {**config, "ack_policy": "explicit", **more},
            "action": action,
        },
    )


async def short_waiting(made: Bus) -> None:
    config = (await info(made))["config"]
    await consumer(
        made, FUNCTION, action="update", **{**config, "ack_wait": int(SHORT_WAIT_SECONDS * SECOND)}
    )


async def refusal_of(made: Bus, verb: str, body: JsonObject | None = None) -> int:
    with pytest.raises(RefusedError) as caught:
        await made.jetstream.call(verb, body)
    return caught.value.code


async def test_each_missing_object_has_its_error_code(declared: Bus) -> None:
    names = declared.names
    invocations = names.invocations
    assert await refusal_of(declared, "STREAM.INFO.NOWHERE") == 10059
    assert await refusal_of(declared, f"CONSUMER.INFO.{invocations}.none") == 10014
    assert await refusal_of(declared, f"CONSUMER.DELETE.{invocations}.none") == 10014
    assert await refusal_of(declared, f"STREAM.MSG.GET.{invocations}", {"seq": 7}) == 10037
    assert await refusal_of(declared, f"STREAM.MSG.DELETE.{invocations}", {"seq": 7}) == 10057


async def test_a_stream_is_created_once_and_the_same_declaration_succeeds_again(
    declared: Bus,
) -> None:
    name = declared.names.states
    told: Any = await declared.jetstream.call(f"STREAM.INFO.{name}")
    await declared.jetstream.call(f"STREAM.CREATE.{name}", told["config"])
    other = {**told["config"], "max_msgs": 7}
    assert await refusal_of(declared, f"STREAM.CREATE.{name}", other) == 10058


async def test_a_consumer_is_created_once_and_updated_only_if_it_exists(declared: Bus) -> None:
    await consumer(declared, "new")
    await consumer(declared, "new")
    with pytest.raises(RefusedError) as made_otherwise:
        await consumer(declared, "new", ack_wait=77 * SECOND)
    with pytest.raises(RefusedError) as not_there:
        await consumer(declared, "none", action="update")
    assert (made_otherwise.value.code, not_there.value.code) == (10148, 10149)


async def test_a_new_consumer_begins_with_the_oldest_message_of_its_subject(
    declared: Bus,
) -> None:
    await send(declared, b"1", b"2", function="new")
    await send(declared, b"other", function="another")
    await consumer(declared, "new")
    assert (await info(declared, "new"))["num_pending"] == 2
    async with inbox(declared) as opened:
        await opened.ask("new", batch=5)
        assert await opened.bodies(2) == [b"1", b"2"]
        assert [each.count for each in opened.deliveries] == [1, 1]


async def test_an_ack_deletes_the_message_from_its_work_queue(declared: Bus) -> None:
    await send(declared, b"1", b"2")
    async with inbox(declared) as opened:
        await opened.ask(batch=2)
        await opened.bodies(2)
        await opened.deliveries[0].ack()
        await eventually(partial(left, declared), equals(1))
        await eventually(partial(in_hand, declared), equals(1))
        assert (await info(declared))["delivered"]["stream_seq"] == 2


async def test_a_message_given_back_comes_before_new_ones(declared: Bus) -> None:
    await send(declared, b"1", b"2")
    async with inbox(declared) as opened:
        await opened.ask()
        await opened.bodies(1)
        await opened.deliveries[0].give_back()
        await asyncio.sleep(0.1)
        await opened.ask(batch=2)
        assert await opened.bodies(3) == [b"1", b"1", b"2"]
        assert [each.count for each in opened.deliveries] == [1, 2, 1]


async def test_a_message_given_back_with_a_delay_comes_after_it(declared: Bus) -> None:
    await send(declared, b"1", b"2")
    async with inbox(declared) as opened:
        await opened.ask(batch=3)
        await opened.bodies(2)
        await opened.deliveries[0].give_back(delay_seconds=0.4)
        await asyncio.sleep(0.15)
        assert len(opened.deliveries) == 2
        assert (await info(declared))["num_ack_pending"] == 2
        assert await opened.bodies(3) == [b"1", b"2", b"1"]


async def test_an_unacknowledged_message_is_redelivered_after_the_ack_wait(declared: Bus) -> None:
    await short_waiting(declared)
    await send(declared, b"1")
    async with inbox(declared) as opened:
        await opened.ask(batch=2)
        assert await opened.bodies(2) == [b"1", b"1"]
        assert opened.deliveries[1].count == 2


async def test_a_message_in_progress_is_not_redelivered(declared: Bus) -> None:
    await short_waiting(declared)
    await send(declared, b"1")
    async with inbox(declared) as opened:
        await opened.ask(batch=2)
        await opened.bodies(1)
        for _ in range(5):
            await asyncio.sleep(SHORT_WAIT_SECONDS / 3)
            await opened.deliveries[0].keep()
        assert len(opened.deliveries) == 1


async def test_a_late_ack_counts_whichever_delivery_it_belongs_to(declared: Bus) -> None:
    await short_waiting(declared)
    await send(declared, b"1")
    async with inbox(declared) as opened:
        await opened.ask(batch=2)
        await opened.bodies(2)
        await opened.deliveries[0].ack()
        await eventually(partial(left, declared), equals(0))
        await eventually(partial(in_hand, declared), equals(0))


async def test_a_recreated_consumer_counts_from_one_and_accepts_old_acks(
    declared: Bus,
) -> None:
    await send(declared, b"1", b"2")
    stream = declared.names.invocations
    async with inbox(declared) as opened:
        await opened.ask()
        await opened.bodies(1)
        await declared.jetstream.call(f"CONSUMER.DELETE.{stream}.{FUNCTION}")
        await consumer(declared, FUNCTION)
        await opened.deliveries[0].ack()
        await asyncio.sleep(0.1)
        assert await left(declared) == 2
        await opened.ask()
        await opened.bodies(2)
        assert (opened.deliveries[1].data, opened.deliveries[1].count) == (b"1", 1)
        await opened.deliveries[0].ack()
        await eventually(partial(left, declared), equals(1))


async def test_no_more_messages_are_unacknowledged_than_the_consumer_allows(declared: Bus) -> None:
    await consumer(declared, "narrow", max_ack_pending=1)
    await send(declared, b"1", b"2", function="narrow")
    async with inbox(declared) as opened:
        await opened.ask("narrow", batch=2)
        await opened.bodies(1)
        await asyncio.sleep(0.1)
        assert len(opened.deliveries) == 1
        await opened.deliveries[0].ack()
        assert await opened.bodies(2) == [b"1", b"2"]


async def test_open_requests_are_served_in_turn(declared: Bus) -> None:
    async with inbox(declared, "inbox.one") as one, inbox(declared, "inbox.two") as two:
        await one.ask(batch=5)
        await two.ask(batch=5)
        await send(declared, b"1", b"2", b"3", b"4")
        assert await one.bodies(2) == [b"1", b"3"]
        assert await two.bodies(2) == [b"2", b"4"]


async def test_a_request_gets_heartbeats_and_at_its_end_the_missing_count(declared: Bus) -> None:
    async with inbox(declared) as opened:
        await opened.ask(batch=2, expires=SECOND, idle_heartbeat=SECOND * 2 // 5)
        await send(declared, b"1")
        await eventually(lambda: bool(opened.words) and opened.words[-1].status == 408)
        assert {each.status for each in opened.words[:-1]} == {100}
        assert opened.words[-1].headers["Nats-Pending-Messages"] == "1"
        assert (await info(declared))["num_waiting"] == 0


async def test_open_requests_end_when_the_consumer_is_deleted(declared: Bus) -> None:
    stream = declared.names.invocations
    async with inbox(declared) as opened:
        await opened.ask()
        await eventually(partial(waiting, declared), equals(1))
        await declared.jetstream.call(f"CONSUMER.DELETE.{stream}.{FUNCTION}")
        assert await opened.statuses(1) == [409]
        assert opened.words[0].description == "Consumer Deleted"
        await opened.ask()
        assert await opened.statuses(2) == [409, 503]


async def test_a_request_without_a_listener_takes_nothing(declared: Bus) -> None:
    async with inbox(declared, "inbox.gone") as opened:
        await opened.ask(batch=5)
        await eventually(partial(waiting, declared), equals(1))
    await send(declared, b"1")
    async with inbox(declared, "inbox.here") as opened:
        await opened.ask()
        assert await opened.bodies(1) == [b"1"]
        assert opened.deliveries[0].count == 1


async def test_a_deleted_message_is_not_redelivered(declared: Bus) -> None:
    await short_waiting(declared)
    await send(declared, b"1", b"2")
    async with inbox(declared) as opened:
        await opened.ask(batch=3)
        await opened.bodies(2)
        await opened.deliveries[1].ack()
        first = opened.deliveries[0].sequence
        await declared.jetstream.delete(declared.names.invocations, first)
        await asyncio.sleep(1.5 * SHORT_WAIT_SECONDS)
        assert len(opened.deliveries) == 2
        assert (await info(declared))["num_ack_pending"] == 0


async def test_a_full_subject_refuses_messages_while_others_accept_them(declared: Bus) -> None:
    name = declared.names.invocations
    told: Any = await declared.jetstream.call(f"STREAM.INFO.{name}")
    await declared.jetstream.call(
        f"STREAM.UPDATE.{name}", {**told["config"], "max_msgs_per_subject": 1}
    )
    await send(declared, b"1", function="busy")
    with pytest.raises(FullError):
        await send(declared, b"2", function="busy")
    await send(declared, b"1", function="idle")
    assert await left(declared) == 2


async def test_a_refused_message_does_not_use_up_its_id(declared: Bus) -> None:
    subject = declared.names.state("echo", "one")
    with pytest.raises(RefusedError):
        await declared.jetstream.publish(subject, b"1", message_id="a", expected_sequence=9)
    stored = await declared.jetstream.publish(subject, b"1", message_id="a", expected_sequence=0)
    assert not stored.is_duplicate


async def test_only_the_last_record_of_each_subject_stays_and_each_is_republished(
    declared: Bus,
) -> None:
    names, told = declared.names, list[Message]()
    changed = names.changed("echo", "one")
    async with declared.connection.listening(changed, told.append):
        for body in (b"1", b"2"):
            await declared.jetstream.publish(names.state("echo", "one"), body)
        await eventually(lambda: len(told), equals(2))
    assert [each.data for each in told] == [b"1", b"2"]
    assert [each.headers["Nats-Last-Sequence"] for each in told] == ["0", "1"]
    state: Any = await declared.jetstream.call(f"STREAM.INFO.{names.states}")
    assert (state["state"]["messages"], state["state"]["last_seq"]) == (1, 2)


async def test_depths_are_listed_for_matching_subjects_only(declared: Bus) -> None:
    await send(declared, b"1", b"2", function="one")
    await send(declared, b"1", function="two")
    told: Any = await declared.jetstream.call(
        f"STREAM.INFO.{declared.names.invocations}",
        {"subjects_filter": f"{declared.names.prefix}.invoke.*"},
    )
    invoke = declared.names.invoke
    assert told["state"]["subjects"] == {invoke("one"): 2, invoke("two"): 1}
    assert told["total"] == 2


async def test_messages_since_a_moment_are_counted(declared: Bus) -> None:
    names, jetstream = declared.names, declared.jetstream
    for _ in range(2):
        await jetstream.publish(names.invoke(FUNCTION), b"before")
    now = datetime.now(UTC)
    for function in (FUNCTION, "other", FUNCTION):
        await jetstream.publish(names.invoke(function), b"after")
    subject = names.invoke(FUNCTION)
    ask = partial(read_batch, declared.connection, names.invocations, subject, most_bytes=1)
    batch = await ask(after=now, most=1)
    assert ([each.data for each in batch.messages], batch.left) == ([b"after"], 1)
    assert await ask(after=datetime.now(UTC), most=1) == Batch()


async def test_a_request_without_a_responder_is_refused_at_once(declared: Bus) -> None:
    with pytest.raises(UnavailableError, match="no responder"):
        await declared.connection.request("nobody", b"", within_seconds=5)
    with pytest.raises(UnavailableError, match="no responder"):
        await declared.jetstream.last("NOWHERE", "a")


async def test_a_message_is_read_by_its_sequence_until_it_is_deleted(declared: Bus) -> None:
    names = declared.names
    stored = await declared.jetstream.publish(names.invoke("echo"), b"1")
    told: Any = await declared.jetstream.call(
        f"STREAM.MSG.GET.{names.invocations}", {"seq": stored.sequence}
    )
    assert told["message"]["subject"] == names.invoke("echo")
    await declared.jetstream.delete(names.invocations, stored.sequence)
    with pytest.raises(MissingError):
        await declared.jetstream.delete(names.invocations, stored.sequence)
