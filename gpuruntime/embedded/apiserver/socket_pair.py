"""Two connected Sockets in one process, bounded as those of a network are."""

import asyncio
from collections import deque
from typing import Final

from gpuruntime.kube.errors import UnreachableError

MOST_BYTES: Final = 128 * 1024  # in each direction, and one message more


class _Direction:
    """Messages on their way from one end to the other."""

    def __init__(self) -> None:
        self.is_closed = False
        self.messages: deque[bytes] = deque()
        self.size = 0
        self.changed = asyncio.Condition()


class PairedSocket:
    status = 101

    def __init__(self, incoming: _Direction, outgoing: _Direction) -> None:
        self._incoming = incoming
        self._outgoing = outgoing

    async def send(self, message: bytes) -> None:
        way = self._outgoing
        async with way.changed:
            await way.changed.wait_for(lambda: way.is_closed or way.size < MOST_BYTES)
            if way.is_closed:
                raise UnreachableError("the WebSocket broke: it is closed")
            way.messages.append(message)
            way.size += len(message)
            way.changed.notify_all()

    async def receive(self) -> bytes | None:
        way = self._incoming
        async with way.changed:
            await way.changed.wait_for(lambda: way.is_closed or way.messages)
            if not way.messages:
                return None
            message = way.messages.popleft()
            way.size -= len(message)
            way.changed.notify_all()
            return message

    async def close(self) -> None:
        """Let the peer receive what was sent; it can send nothing more."""
        for way in (self._incoming, self._outgoing):
            async with way.changed:
                way.is_closed = True
                way.changed.notify_all()


def socket_pair() -> tuple[PairedSocket, PairedSocket]:
    one, other = _Direction(), _Direction()
    return PairedSocket(one, other), PairedSocket(other, one)
