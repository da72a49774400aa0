"""Two ends of a WebSocket in one process."""

import asyncio

import pytest

from gpuruntime.embedded.apiserver.socket_pair import MOST_BYTES, socket_pair
from gpuruntime.kube.errors import UnreachableError

PIECE = bytes(32 * 1024)


async def test_messages_keep_their_order_in_both_directions() -> None:
    one, other = socket_pair()
    await one.send(b"1")
    await one.send(b"2")
    await other.send(b"3")
    assert [await other.receive(), await other.receive(), await one.receive()] == [
        b"1",
        b"2",
        b"3",
    ]


async def test_what_was_sent_is_received_after_the_close() -> None:
    one, other = socket_pair()
    await one.send(b"last")
    await one.close()
    assert [await other.receive(), await other.receive()] == [b"last", None]
    for end in (one, other):
        with pytest.raises(UnreachableError, match="it is closed"):
            await end.send(b"more")


@pytest.mark.looptime
async def test_a_sender_waits_for_a_slow_receiver() -> None:
    one, other = socket_pair()
    for _ in range(MOST_BYTES // len(PIECE)):
        await one.send(PIECE)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(60):
            await one.send(PIECE)
    await other.receive()
    await one.send(PIECE)


@pytest.mark.looptime
async def test_a_close_ends_whoever_waits() -> None:
    one, other = socket_pair()
    async with asyncio.TaskGroup() as tasks:
        receiving = tasks.create_task(other.receive())
        await asyncio.sleep(1)
        await one.close()
    assert receiving.result() is None
