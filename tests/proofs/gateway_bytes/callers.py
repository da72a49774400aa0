"""Callers of the gateway by raw connections, which hold few bytes themselves."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import attrs

from tests.proofs.gateway_bytes.reach import Reach

# The caller's own buffers hold little, so that the gateway has to wait soon.
_OWN_BYTES: Final = 4096
_UPGRADE: Final = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}
_BINARY: Final = 0x82


@attrs.frozen
class Caller:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def receive_head(self) -> bytes:
        return await self.reader.readuntil(b"\r\n\r\n")

    async def send_for_ever(self, piece: bytes) -> None:
        while True:
            self.writer.write(piece)
            await self.writer.drain()


@asynccontextmanager
async def calling(
    reach: Reach, line: str, *, host: str = "", headers: dict[str, str] | None = None
) -> AsyncIterator[Caller]:
    """Connect, and send the head of a request; the end of the block cuts the connection."""
    own = socket.socket()
    own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _OWN_BYTES)
    own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _OWN_BYTES)
    own.setblocking(False)
    await asyncio.get_running_loop().sock_connect(own, ("127.0.0.1", reach.port))
    caller = Caller(*await asyncio.open_connection(sock=own, limit=_OWN_BYTES))
    given = {"Host": host or reach.host, "Authorization": reach.authorization, **(headers or {})}
    lines = (f"{line} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items()), "", "")
    caller.writer.write("\r\n".join(lines).encode())
    try:
        yield caller
    finally:
        caller.writer.transport.abort()
        with suppress(OSError):
            await caller.writer.wait_closed()


@asynccontextmanager
async def on_web_socket(
    reach: Reach, path: str, *, host: str = "", protocol: str = ""
) -> AsyncIterator[Caller]:
    asked = {"Sec-WebSocket-Protocol": protocol} if protocol else {}
    headers = _UPGRADE | asked
    async with calling(reach, f"GET {path}", host=host, headers=headers) as caller:
        head = await caller.receive_head()
        assert head.startswith(b"HTTP/1.1 101 "), head
        yield caller


def frame(payload: bytes) -> bytes:
    """Return a binary message of a caller; its mask of zeros leaves the payload as it is."""
    size = len(payload)
    if size < 126:
        length = bytes((0x80 | size,))
    elif size < 2**16:
        length = b"\xfe" + struct.pack("!H", size)
    else:
        length = b"\xff" + struct.pack("!Q", size)
    return bytes((_BINARY,)) + length + bytes(4) + payload
