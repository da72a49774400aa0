"""Commands in the containers of units: one WebSocket of a caller for one of the API server.

The gateway judges each message and passes it on as it is. The API server's status is the last
message that a caller gets; a session without one has no exit code.
"""

import asyncio
from contextlib import AsyncExitStack
from typing import Final, NoReturn

from aiohttp import web

from gpuruntime.gateway.connections import ConnectionKind, Connections
from gpuruntime.gateway.containers.caller_socket import (
    Close,
    CloseCode,
    accept,
    demand_upgrade,
    offered_protocols,
)
from gpuruntime.gateway.containers.exec_messages import (
    LARGEST_FROM_CALLER,
    MessageError,
    demand_output,
    from_caller,
    is_status,
    naming_the_shell,
    size_message,
)
from gpuruntime.gateway.containers.exec_request import ExecRequest, parse_exec_request
from gpuruntime.gateway.containers.session import DONE, Session, SessionTimes
from gpuruntime.gateway.containers.unit_pods import opening, running_pod
from gpuruntime.gateway.errors import Code, GatewayError
from gpuruntime.gateway.gate import Visitor
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import UnreachableError
from gpuruntime.kube.pod_exec import open_channels
from gpuruntime.kube.transport import Socket
from gpuruntime.models.kubernetes.exec_streams import LAST_OUTPUT_SECONDS, PROTOCOL, Channel

_CUT: Final = Close(CloseCode.UPSTREAM, "the command was cut off, and may run on: no exit code")


class ExecSessions:
    def __init__(self, client: Client, connections: Connections, times: SessionTimes) -> None:
        self._client = client
        self._connections = connections
        self._times = times

    async def serve(self, request: web.Request, visitor: Visitor) -> web.StreamResponse:
        """Run the command until it or the session ends. Raise GatewayError before the upgrade."""
        asked = parse_exec_request(request.query)
        demand_upgrade(request)
        if PROTOCOL not in offered_protocols(request):
            raise GatewayError(Code.INVALID_REQUEST, f"offer the sub-protocol {PROTOCOL}")
        with self._connections.open(visitor, ConnectionKind.EXEC) as connection:
            async with AsyncExitStack() as opened:
                pod = await running_pod(self._client, visitor.unit)
                with opening(visitor.unit):
                    command = open_channels(self._client, pod, asked.command)
                    server = await opened.enter_async_context(command)
                caller = await accept(request, protocols=(PROTOCOL,), largest=LARGEST_FROM_CALLER)
                session = Session(caller, connection, self._times)
                await session.run(_forth(session, server, asked), _back(session, server, asked))
                return caller.response


async def _forth(session: Session, server: Socket, asked: ExecRequest) -> NoReturn:
    if asked.size is not None:
        columns, rows = asked.size
        await server.send(size_message(columns, rows))
    while True:
        message = await session.receive()
        if isinstance(message, str):
            raise MessageError("messages are binary: the first byte is the channel")
        passed = from_caller(message)
        if passed is None:
            continue
        if passed[0] == Channel.STDIN:
            session.touch()
        await server.send(passed)


async def _back(session: Session, server: Socket, asked: ExecRequest) -> Close:
    """Pass output on. A server need not close after the status, and may send output after it."""
    status = b""
    while (message := await _next(server, has_status=bool(status))) is not None:
        demand_output(message)
        if is_status(message):
            status = status or message
        elif message:
            await session.send(message)
    if not status:
        return _CUT
    await session.send(naming_the_shell(status) if asked.is_login_shell else status)
    return DONE


async def _next(server: Socket, *, has_status: bool) -> bytes | None:
    """Return the next message, or None at the end; after the status no fault matters."""
    try:
        async with asyncio.timeout(LAST_OUTPUT_SECONDS if has_status else None):
            return await server.receive()
    except (UnreachableError, TimeoutError):
        if not has_status:
            raise
        return None
