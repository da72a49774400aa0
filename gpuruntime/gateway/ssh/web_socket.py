"""SSH within WebSockets: binary messages are the bytes of one SSH connection, for `ProxyCommand`.

The ticket comes with the request. So the connection needs none at its login, and the
gateway needs no other port.
"""

import asyncio
import socket
from typing import Final

from aiohttp import web

from gpuruntime.gateway.connections import Connection, ConnectionKind, Connections
from gpuruntime.gateway.containers.caller_socket import (
    CLOSING_SECONDS,
    CallerGoneError,
    CallerSocket,
    Close,
    CloseCode,
    accept,
    demand_upgrade,
)
from gpuruntime.gateway.gate import Wanted
from gpuruntime.gateway.presentation import presented_by_program
from gpuruntime.gateway.ssh.container import PIECE_BYTES
from gpuruntime.gateway.ssh.server import SshServer
from gpuruntime.gateway.wake import Waker
from gpuruntime.models.requests.tickets import Use

PING_SECONDS: Final = 30.0
LARGEST_MESSAGE: Final = 64 * 1024
_END: Final = "end"


class SshVerb:
    def __init__(self, waker: Waker, connections: Connections, server: SshServer) -> None:
        self._waker = waker
        self._connections = connections
        self._server = server

    async def serve(self, request: web.Request, unit: str) -> web.StreamResponse:
        """Serve one SSH connection within a WebSocket. Raise GatewayError before the upgrade."""
        presented = presented_by_program(request.headers)
        wanted = Wanted(use=Use.SSH, name=unit)
        visitor = await self._waker.admit(presented, wanted, may_hold=True)
        demand_upgrade(request)
        # Counted and ended from here on: a revocation during the login must not be missed.
        with self._connections.open(visitor, ConnectionKind.SSH) as visit:
            return await self._pass(request, visit)

    async def _pass(self, request: web.Request, visit: Connection) -> web.StreamResponse:
        caller = await accept(request, protocols=(), largest=LARGEST_MESSAGE)
        ours, theirs = socket.socketpair()
        with ours:
            ours.setblocking(False)
            theirs.setblocking(False)
            async with asyncio.TaskGroup() as tasks:
                served = tasks.create_task(self._server.serve(theirs, visit))
                forth = tasks.create_task(_forth(caller, ours))
                probe = tasks.create_task(_probe(caller))
                back = tasks.create_task(_back(ours, caller))
                ways = (forth, probe, back)
                await asyncio.wait((served, *ways), return_when=asyncio.FIRST_COMPLETED)
                if served.done():
                    # Its last bytes wait for a caller that may never take them.
                    await asyncio.wait((back,), timeout=CLOSING_SECONDS)
                for task in ways:
                    task.cancel()
                await asyncio.wait(ways)
                # The server sees the end, and hangs up what runs.
                ours.close()
                await served
        await caller.close(Close(CloseCode.DONE))
        return caller.response


async def _forth(caller: CallerSocket, ours: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    try:
        while True:
            message = await caller.receive()
            if message == _END:
                ours.shutdown(socket.SHUT_WR)
            elif isinstance(message, bytes):
                await loop.sock_sendall(ours, message)
            else:
                return
    except (CallerGoneError, OSError):
        return


async def _back(ours: socket.socket, caller: CallerSocket) -> None:
    loop = asyncio.get_running_loop()
    try:
        while data := await loop.sock_recv(ours, PIECE_BYTES):
            await caller.send(data)
    except (CallerGoneError, OSError):
        return


async def _probe(caller: CallerSocket) -> None:
    try:
        await caller.probe(PING_SECONDS)
    except CallerGoneError:
        return
