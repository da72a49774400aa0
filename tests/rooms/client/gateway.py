"""An API and a gateway on loopback whose one unit is this machine: its programs run here."""

import asyncio
import atexit
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import attrs
import msgspec
from aiohttp import web

from gpuruntime.embedded.apiserver.pod_streams import ExecRequest, ForwardRequest, _execute
from gpuruntime.embedded.processes.guarded_processes import Process, Processes
from gpuruntime.embedded.processes.running_command import (
    CommandOptions,
    RunningCommand,
    running_command,
)
from gpuruntime.embedded.processes.start_plan import Start
from gpuruntime.kube.errors import UnreachableError
from gpuruntime.models.kinds.templates import Port, Template
from gpuruntime.models.requests.tickets import Use
from gpuruntime.models.views.tickets import SshAddress, TicketUnit, TicketView
from gpuruntime.models.views.units import UnitView
from tests.eventually import eventually
from tests.rooms.commands.views import UNIT
from tests.rooms.kube.servers import serving

TICKET = "a-ticket-of-"
SHELL = ("sh",)
# One guard for all tests, as each takes a while to start.
PROCESSES = Processes()
atexit.register(PROCESSES.close)
READY: Mapping[str, Any] = {"suspended": False, "phase": "Ready", "reason": "DeploymentReady"}
SUSPENDED: Mapping[str, Any] = {
    "suspended": True,
    "phase": "Suspended",
    "reason": "ScaledToZero",
    "readyReplicas": 0,
}


class CallerSocket:
    """The caller's WebSocket, as `kube` knows sockets."""

    status = 101

    def __init__(self, response: web.WebSocketResponse, cut_after: int | None) -> None:
        self._response = response
        self._left = cut_after

    async def send(self, message: bytes) -> None:
        if self._left is not None:
            self._left -= len(message)
            if self._left < 0:
                abort(self._response)
        try:
            await self._response.send_bytes(message)
        except (aiohttp.ClientError, OSError) as error:
            raise UnreachableError(str(error)) from error

    async def receive(self) -> bytes | None:
        message = await self._response.receive()
        return message.data if message.type is aiohttp.WSMsgType.BINARY else None


class ProgramsHere:
    """Streams of Pods that run on this machine, in one folder."""

    def __init__(self, processes: Processes, folder: Path) -> None:
        self.ran: list[Process] = []
        self.path = os.environ["PATH"]
        self._processes = processes
        self._folder = folder

    @asynccontextmanager
    async def command(self, request: ExecRequest) -> AsyncIterator[RunningCommand]:
        environment = {"PATH": self.path, "HOME": str(self._folder)}
        start = Start(argv=request.arguments, environment=environment, folder=str(self._folder))
        options = CommandOptions(has_input=True, has_terminal=request.has_terminal)
        async with running_command(self._processes, start, options) as command:
            self.ran.append(command.process)
            yield command

    async def dial(
        self, request: ForwardRequest
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", request.port)


@attrs.define
class Site:
    """An API with one unit, and its gateway; a test changes what it likes."""

    programs: ProgramsHere
    unit: UnitView = attrs.evolve(
        UNIT, template=Template(ports=(Port(name="http", port=8080),)), **READY
    )
    address: str = ""
    # Refusals of the API and of the gateway, by the verb.
    refusals: dict[str, tuple[int, dict[str, Any]]] = attrs.field(factory=dict)
    tickets: list[dict[str, Any]] = attrs.field(factory=list)
    presented: list[str] = attrs.field(factory=list)
    revoked: set[str] = attrs.field(factory=set)
    wakes: int = 0
    # Bytes of output after which the connection of a program is cut.
    cut_after: int | None = None
    polls_until_ready: int = 2
    ssh: Callable[[web.WebSocketResponse], Any] | None = None
    host_keys: tuple[str, ...] = ()
    open: list[web.WebSocketResponse] = attrs.field(factory=list)

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        _, kind, *rest = request.path.split("/")
        if kind == "units":
            return await self._reached(request, rest[1])
        return await self._asked(request, rest[3:])

    def cut(self) -> None:
        """End all connections of the gateway, as if it was killed."""
        for each in self.open:
            abort(each)

    async def _asked(self, request: web.BaseRequest, verbs: list[str]) -> web.StreamResponse:
        verb = verbs[0] if verbs else ""
        if verb in self.refusals:
            return refusal(*self.refusals[verb])
        if verb == "tickets":
            asked = msgspec.json.decode(await request.read())
            self.tickets.append(asked)
            return data(self._ticket(asked), 201)
        if verb == "wake":
            self.wakes += 1
            woken = {**SUSPENDED, "suspended": False, "phase": "Progressing"}
            self.unit = attrs.evolve(self.unit, **woken, message="pulling image", generation=2)
        elif self.unit.phase == "Progressing":
            self.polls_until_ready -= 1
            if not self.polls_until_ready:
                self.unit = attrs.evolve(self.unit, **READY, observedGeneration=2)
        return data(self.unit)

    def _ticket(self, asked: dict[str, Any]) -> TicketView:
        gateway = self.address.replace("http", "ws").replace("127.0.0.1", "gateway.localhost")
        below = f"{gateway}/units/{self.unit.name}"
        named = {each.name: str(each.port) for each in self.unit.template.ports}
        port = asked.get("port", "")
        port = named.get(port, port)
        uses = tuple(map(Use, asked["uses"]))
        return TicketView(
            ticket=f"{TICKET}{len(self.tickets)}",
            expiresAt=datetime.now(UTC) + timedelta(seconds=asked.get("seconds", 900)),
            unit=TicketUnit(name=self.unit.name, uid="1", generation=0),
            uses=uses,
            url=f"http://{port}--demo.localhost/.gpuruntime/enter?ticket=an-entry",
            terminalURL="",
            execURL=f"{below}/exec" if Use.EXEC in uses else "",
            forwardURL=f"{below}/forward?port={port}" if Use.FORWARD in uses else "",
            ssh=self._ssh() if Use.SSH in uses else None,
            sshURL=f"{below}/ssh" if Use.SSH in uses else "",
        )

    def _ssh(self) -> SshAddress:
        return SshAddress(
            host="ssh.localhost",
            port=22,
            user=self.unit.name,
            command="ssh",
            hostKeys=self.host_keys,
        )

    async def _reached(self, request: web.BaseRequest, verb: str) -> web.StreamResponse:
        ticket = request.headers["Authorization"].removeprefix("Bearer ")
        self.presented.append(ticket)
        if verb in self.refusals:
            return refusal(*self.refusals[verb])
        if not ticket.startswith(TICKET) or ticket in self.revoked:
            return refusal(403, {"code": "ticket_refused", "reason": "revoked"})
        protocols = ("v5.channel.k8s.io",) if verb == "exec" else ()
        response = web.WebSocketResponse(protocols=protocols)
        await response.prepare(request)
        self.open.append(response)
        if verb == "exec":
            await self._exec(request, response)
        elif verb == "forward":
            await forwarded(response, int(request.query["port"]))
        elif self.ssh is not None:
            await self.ssh(response)
        return response

    async def _exec(self, request: web.BaseRequest, response: web.WebSocketResponse) -> None:
        asked = ExecRequest(
            namespace="n",
            pod="p",
            container="runtime",
            arguments=tuple(request.query.getall("command", SHELL)),
            has_input=True,
            has_terminal=request.query.get("tty") == "true",
        )
        socket = CallerSocket(response, self.cut_after)
        await _execute(_Sized(self.programs, request.query), asked, socket)
        await response.close()


@attrs.frozen
class _Sized:
    """Programs whose terminal has the size of the query from the beginning."""

    programs: ProgramsHere
    query: Mapping[str, str]

    @asynccontextmanager
    async def command(self, request: ExecRequest) -> AsyncIterator[RunningCommand]:
        async with self.programs.command(request) as command:
            if "columns" in self.query:
                columns, rows = (int(self.query[name]) for name in ("columns", "rows"))
                command.resize(columns=columns, rows=rows)
            yield command

    async def dial(
        self, request: ForwardRequest
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await self.programs.dial(request)


def abort(response: web.WebSocketResponse) -> None:
    if response._req is not None and response._req.transport is not None:
        response._req.transport.abort()


async def forwarded(response: web.WebSocketResponse, port: int) -> None:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError as error:
        await response.close(code=4502, message=str(error.strerror).encode())
        return

    async def back() -> None:
        with suppress(OSError, aiohttp.ClientError):
            while piece := await reader.read(65_536):
                await response.send_bytes(piece)
            await response.send_str("end")

    async def forth() -> None:
        with suppress(OSError):
            async for message in response:
                if message.type is aiohttp.WSMsgType.TEXT:
                    writer.write_eof()
                    return
                writer.write(message.data)
                await writer.drain()
            writer.transport.abort()

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(back())
            group.create_task(forth())
        await response.close()
    finally:
        writer.close()


@asynccontextmanager
async def reachable(folder: Path) -> AsyncIterator[Site]:
    """Yield a site; programs of its unit run in the folder, and end before it does."""
    site = Site(ProgramsHere(PROCESSES, folder))
    async with serving(site) as site.address:
        yield site
        await eventually(lambda: all(each.has_ended for each in site.programs.ran))


def data(view: attrs.AttrsInstance, status: int = 200) -> web.Response:
    body = msgspec.json.encode({"data": attrs.asdict(view)})
    return web.Response(body=body, status=status, content_type="application/json")


def refusal(status: int, error: dict[str, Any]) -> web.Response:
    words = {"message": f"it is {error['code']}", "details": [], **error}
    return web.json_response({"error": words}, status=status)
