"""A bounded connection brings little in one read, whatever its peer has sent."""

import asyncio
import socket

from gpuruntime.concurrency.reads import READ_BYTES, bound_reads


class Receiver(asyncio.Protocol):
    def __init__(self, count: int) -> None:
        self.largest = 0
        self.all_came = asyncio.Event()
        self._left = count

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        bound_reads(transport)

    def data_received(self, data: bytes) -> None:
        self.largest = max(self.largest, len(data))
        self._left -= len(data)
        if not self._left:
            self.all_came.set()


async def test_a_read_brings_at_most_its_bound() -> None:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    receiver = Receiver(8 * READ_BYTES)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_connection(lambda: receiver, sock=ours)
    transport.pause_reading()
    with theirs:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(loop.sock_sendall(theirs, bytes(8 * READ_BYTES)))
            await asyncio.sleep(0.01)
            transport.resume_reading()
            await receiver.all_came.wait()
    transport.close()
    assert receiver.largest == READ_BYTES


def test_a_transport_without_such_a_bound_is_left_as_it_is() -> None:
    bound_reads(None)
