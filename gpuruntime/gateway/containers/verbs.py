"""The gateway's verbs for programs that reach into a unit: admission, then a session."""

from aiohttp import web

from gpuruntime.gateway.containers.exec_session import ExecSessions
from gpuruntime.gateway.containers.forward_session import ForwardSessions
from gpuruntime.gateway.errors import Code, GatewayError
from gpuruntime.gateway.gate import Wanted
from gpuruntime.gateway.presentation import presented_by_program
from gpuruntime.gateway.wake import Waker
from gpuruntime.models.requests.tickets import Use

_PORT = "port"


class ExecVerb:
    def __init__(self, waker: Waker, sessions: ExecSessions) -> None:
        self._waker = waker
        self._sessions = sessions

    async def serve(self, request: web.Request, unit: str) -> web.StreamResponse:
        """Run a command of the query in the unit. Raise GatewayError."""
        wanted = Wanted(use=Use.EXEC, name=unit)
        presented = presented_by_program(request.headers)
        visitor = await self._waker.admit(presented, wanted, may_hold=True)
        return await self._sessions.serve(request, visitor)


class ForwardVerb:
    """The ports that a unit does not declare are out of reach if `has_exec` is false."""

    def __init__(self, waker: Waker, sessions: ForwardSessions, *, has_exec: bool) -> None:
        self._waker = waker
        self._sessions = sessions
        self._has_exec = has_exec

    async def serve(self, request: web.Request, unit: str) -> web.StreamResponse:
        """Pass bytes on to a port of the unit. Raise GatewayError."""
        ports = request.query.getall(_PORT, [])
        if len(ports) != 1 or set(request.query) != {_PORT}:
            raise GatewayError(Code.INVALID_REQUEST, "name one port and nothing else: ?port=8080")
        wanted = Wanted(
            use=Use.FORWARD, name=unit, port=ports[0], only_declared=not self._has_exec
        )
        presented = presented_by_program(request.headers)
        visitor = await self._waker.admit(presented, wanted, may_hold=True)
        return await self._sessions.serve(request, visitor)
