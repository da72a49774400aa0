"""Forwards: binary messages of a WebSocket are the bytes of one TCP connection to a unit.

The text `end` is a half close, in both directions.
"""

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Final, NoReturn

from aiohttp import web

from gpuruntime.gateway.connections import ConnectionKind, Connections
from gpuruntime.gateway.containers.caller_socket import (
    Close,
    accept,
    demand_upgrade,
    offered_protocols,
)
from gpuruntime.gateway.containers.exec_messages import MessageError
from gpuruntime.gateway.containers.port_dialer import ByteStream, PortDialer
from gpuruntime.gateway.containers.session import DONE, Session, SessionTimes
from gpuruntime.gateway.errors import Code, GatewayError
from gpuruntime.gateway.gate import Visitor
from gpuruntime.gateway.presentation import SUB_PROTOCOL

LARGEST_MESSAGE: Final = 64 * 1024
END: Final = "end"


class ForwardSessions:
    def __init__(self, dialer: PortDialer, connections: Connections, times: SessionTimes) -> None:
        self._dialer = dialer
        self._connections = connections
        self._times = times

    async def serve(self, request: web.Request, visitor: Visitor) -> web.StreamResponse:
        """Pass bytes on until both sides have ended, or the session does. Raise GatewayError."""
        demand_upgrade(request)
        if visitor.port is None:
            raise GatewayError(Code.INVALID_REQUEST, "name a port: ?port=8080")
        with self._connections.open(visitor, ConnectionKind.FORWARD) as connection:
            # A browser fails a WebSocket that chooses none of the sub-protocols it offered.
            offered = offered_protocols(request)
            named = tuple(each for each in offered if not each.startswith(SUB_PROTOCOL))
            caller = await accept(request, protocols=named[:1], largest=LARGEST_MESSAGE)
            session = Session(caller, connection, self._times)
            dialled: asyncio.Future[ByteStream] = asyncio.get_running_loop().create_future()
            dialling = self._dialer.dial(visitor.unit, visitor.port)
            await session.run(_forth(session, dialled), _back(session, dialling, dialled))
            return caller.response


async def _forth(session: Session, dialled: asyncio.Future[ByteStream]) -> NoReturn:
    while True:
        message = await session.receive()
        stream = await dialled
        if isinstance(message, bytes):
            session.touch()
            await stream.write(message)
        elif message == END:
            await stream.end()
            break
        else:
            raise MessageError(f"the only text is {END!r}: bytes are binary messages")
    await session.receive()
    raise MessageError(f"nothing may follow {END!r}")


async def _back(
    session: Session,
    dialling: AbstractAsyncContextManager[ByteStream],
    dialled: asyncio.Future[ByteStream],
) -> Close:
    async with dialling as stream:
        dialled.set_result(stream)
        async for data in stream.output():
            if data:
                await session.send(data)
            else:
                await session.caller.send_text(END)
    return DONE
