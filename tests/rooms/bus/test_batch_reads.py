import asyncio
from datetime import UTC, datetime

import pytest

from gpuruntime.bus.batch_reads import Batch, read_batch
from gpuruntime.bus.errors import RefusedError, UnavailableError
from tests.rooms.bus.broker import Broker, Bus, bus


async def letters(made: Bus, *functions: str) -> None:
    for number, function in enumerate(functions):
        subject = made.names.dead_letter(function, f"dl-{number}")
        await made.jetstream.publish(subject, f"{number}".encode() * 1_000)


async def read(
    made: Bus,
    function: str = "*",
    *,
    after: int | datetime = 0,
    most: int = 10,
    most_bytes: int = 10**6,
) -> Batch:
    return await read_batch(
        made.connection,
        made.names.dead_letters,
        f"{made.names.prefix}.dlq.{function}.*",
        after=after,
        most=most,
        most_bytes=most_bytes,
    )


async def test_one_request_returns_many_messages(declared: Bus) -> None:
    await letters(declared, "a", "b", "a")
    batch = await read(declared)
    assert [each.data[:1] for each in batch.messages] == [b"0", b"1", b"2"]
    assert [each.sequence for each in batch.messages] == [1, 2, 3]
    assert batch.messages[1].subject == declared.names.dead_letter("b", "dl-1")
    assert batch.left == 0


async def test_only_messages_of_the_subjects_are_returned_and_the_rest_is_counted(
    declared: Bus,
) -> None:
    await letters(declared, "a", "b", "a", "a")
    batch = await read(declared, "a", most=2)
    assert [each.sequence for each in batch.messages] == [1, 3]
    assert batch.left == 1
    rest = await read(declared, "a", after=3)
    assert ([each.sequence for each in rest.messages], rest.left) == ([4], 0)


@pytest.mark.parametrize(("most_bytes", "count"), [(1, 1), (2_500, 3)])
async def test_a_batch_keeps_to_its_byte_limit_but_has_at_least_one_message(
    declared: Bus, most_bytes: int, count: int
) -> None:
    """The last message is the one that exceeds the limit."""
    await letters(declared, *"aaaaa")
    batch = await read(declared, most_bytes=most_bytes)
    assert len(batch.messages) <= count
    assert len(batch.messages) + batch.left == 5


async def test_a_batch_may_begin_at_a_moment(declared: Bus) -> None:
    await letters(declared, "a", "b")
    now = datetime.now(UTC)
    await letters(declared, "c", "d")
    batch = await read(declared, after=now, most=1)
    assert ([each.sequence for each in batch.messages], batch.left) == ([3], 1)
    assert await read(declared, after=datetime.now(UTC)) == Batch()


async def test_an_empty_stream_returns_an_empty_batch(declared: Bus) -> None:
    assert await read(declared) == Batch()


async def test_a_batch_without_a_responder_is_unavailable(declared: Bus) -> None:
    with pytest.raises(UnavailableError, match="no responder"):
        await read_batch(declared.connection, "NO", "a", after=0, most=1, most_bytes=1)


async def test_a_request_that_the_broker_cannot_read_is_refused(declared: Bus) -> None:
    with pytest.raises(RefusedError, match="408"):
        await read(declared, after=-2)


async def test_the_end_of_the_connection_ends_the_wait(own: Broker) -> None:
    async with bus(own.url, "batch") as made:
        own.pause()
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(failing(made))
            await asyncio.sleep(0.1)
            own.kill()
        assert isinstance(waiting.result(), UnavailableError)


async def failing(made: Bus) -> Exception:
    with pytest.raises(UnavailableError) as caught:
        async with asyncio.timeout(3):
            await read(made)
    return caught.value
