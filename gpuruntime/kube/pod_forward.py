"""Connections to ports of Pods: the kubelet dials the port on the Pod's own loopback.

One WebSocket is one connection. The protocol has no half close: the end of the block ends both
directions, and a server need not report that the far side has closed.
"""

import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from gpuruntime.kube.answers import CONNECT, Call
from gpuruntime.kube.client import Client, naming
from gpuruntime.kube.errors import BadRequestError, MalformedAnswerError, UnavailableError
from gpuruntime.kube.transport import Socket
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.pods import PODS

PROTOCOL: Final = "v4.channel.k8s.io"
SUBRESOURCE: Final = "portforward"
DATA: Final = 0
ERROR: Final = 1
PIECE_BYTES: Final = 32 * 1024
LARGEST_PORT: Final = 65_535
PORT: Final = struct.Struct("<H")  # the first message of each channel


@asynccontextmanager
async def forward(client: Client, pod: Key, port: int) -> AsyncIterator["Forwarding"]:
    """Connect to a port of the Pod; the end of the block closes the connection.

    Raise BadRequestError for a number that is no port, and NotFoundError without the Pod.
    """
    call = Call(CONNECT, f"{PODS}/{SUBRESOURCE}", str(pod))
    if not 0 < port <= LARGEST_PORT:
        raise BadRequestError(f"{call}: {port} is no port: use 1 to {LARGEST_PORT}", 400)
    query = (("ports", str(port)),)
    async with client.socket(PODS, pod, SUBRESOURCE, query, protocol=PROTOCOL) as socket:
        yield Forwarding(socket, call, port)


class Forwarding:
    """An open connection. One task reads `output`, and any number of others write."""

    def __init__(self, socket: Socket, call: Call, port: int) -> None:
        self._socket = socket
        self._call = call
        self._port = port

    async def write(self, data: bytes) -> None:
        """Send, and wait while the far side reads too slowly."""
        for start in range(0, len(data), PIECE_BYTES):
            with naming(self._call):
                await self._socket.send(bytes((DATA,)) + data[start : start + PIECE_BYTES])

    async def output(self) -> AsyncIterator[bytes]:
        """Yield until the server closes. Raise UnavailableError if nothing listens at the port."""
        unopened = {DATA, ERROR}
        while True:
            with naming(self._call):
                message = await self._socket.receive()
            if message is None:
                return
            channel, data = message[:1], message[1:]
            if not data:
                continue
            if channel[0] in unopened and data == PORT.pack(self._port):
                unopened.remove(channel[0])
            elif channel[0] == DATA and DATA not in unopened:
                yield data
            elif channel[0] == ERROR and ERROR not in unopened:
                raise self._refused(data)
            else:
                words = f"channel {channel[0]} of port {self._port} begins with {data[:8]!r}"
                raise MalformedAnswerError(f"{self._call}: {words}")

    def _refused(self, words: bytes) -> UnavailableError:
        said = " ".join(words.decode(errors="replace").split())
        return UnavailableError(
            f"{self._call}: port {self._port}: {said} (check that the Pod runs and listens there)",
            status=502,
        )
