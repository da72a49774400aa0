"""The server's side of exec and port-forward: requests, their target, and their messages."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Final, Protocol

import attrs
import msgspec

from gpuruntime.embedded.apiserver.documents import Document, encode
from gpuruntime.embedded.apiserver.pod_logs import container_named
from gpuruntime.embedded.apiserver.query_options import TRUE
from gpuruntime.embedded.apiserver.resources import Call
from gpuruntime.embedded.apiserver.status_errors import (
    StatusError,
    bad_request,
    method_not_allowed,
)
from gpuruntime.embedded.processes.running_command import RunningCommand
from gpuruntime.kube import pod_exec, pod_forward
from gpuruntime.kube.errors import UnreachableError
from gpuruntime.kube.transport import Socket
from gpuruntime.models.kubernetes import exec_streams
from gpuruntime.models.kubernetes.exec_streams import Channel

EXEC: Final = pod_exec.SUBRESOURCE
FORWARD: Final = pod_forward.SUBRESOURCE
PROTOCOLS: Final = {EXEC: exec_streams.PROTOCOL, FORWARD: pod_forward.PROTOCOL}
KILLED: Final = 128  # a shell adds the number of the signal


@attrs.frozen(kw_only=True, slots=True)
class ExecRequest:
    namespace: str
    pod: str
    container: str
    arguments: tuple[str, ...]
    has_input: bool = False
    has_terminal: bool = False


@attrs.frozen(kw_only=True, slots=True)
class ForwardRequest:
    namespace: str
    pod: str
    port: int


@attrs.frozen(slots=True)
class Upgrade:
    """A WebSocket that the server is ready to open, and what it then does with it."""

    protocol: str
    serve: Callable[[Socket], Awaitable[None]]


class PodStreams(Protocol):
    """Commands in Pods and connections to them, as their nodes carry them out."""

    def command(self, request: ExecRequest) -> AbstractAsyncContextManager[RunningCommand]:
        """Run a command in a container; raise StatusError or OSError if it cannot be run."""
        ...

    async def dial(
        self, request: ForwardRequest
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to a port of a Pod; raise StatusError or OSError if nothing listens there."""
        ...


class NoStreams:
    """Streams of a server without nodes: no container runs."""

    def command(self, request: ExecRequest) -> AbstractAsyncContextManager[RunningCommand]:
        raise failed(f'container not found ("{request.container}")')

    async def dial(
        self, request: ForwardRequest
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        raise failed(f"pod not found ({request.pod}_{request.namespace})")


NO_STREAMS: Final[PodStreams] = NoStreams()


def upgrade_of(
    call: Call, pod: Document, streams: PodStreams, offered: tuple[str, ...]
) -> Upgrade:
    """Return the WebSocket that the request asks for; raise StatusError for a faulty one.

    The protocol is judged before the query, which only that protocol gives its meaning: kubectl
    names the ports of a forward after it has upgraded to SPDY.
    """
    demand_upgradable(call, pod)
    protocol = PROTOCOLS[call.target.subresource]
    if protocol not in offered:
        raise upgrade_required(protocol)
    if call.target.subresource == EXEC:
        execution = _exec_request(call, pod)
        return Upgrade(protocol, lambda socket: _execute(streams, execution, socket))
    forward = _forward_request(call)
    return Upgrade(protocol, lambda socket: _forward(streams, forward, socket))


def demand_upgradable(call: Call, pod: Document) -> None:
    """Raise StatusError if no WebSocket can open, whatever its protocol and its query."""
    if call.request.method not in ("GET", "POST"):
        raise method_not_allowed()
    if not pod["spec"].get("nodeName"):
        raise bad_request(f"pod {pod['metadata']['name']} does not have a host assigned")


def upgrade_required(protocol: str) -> StatusError:
    return bad_request(
        "Upgrade request required: the embedded cluster serves it over a WebSocket with "
        f"{protocol}"
    )


def failed(message: str) -> StatusError:
    """Return the refusal of a kubelet, which comes after the WebSocket has been opened."""
    return StatusError(500, "InternalError", message)


def _exec_request(call: Call, pod: Document) -> ExecRequest:
    query = call.query
    arguments = tuple(value for name, value in call.request.query if name == "command")
    if not arguments:
        raise bad_request("you must specify at least one command for the container")
    return ExecRequest(
        namespace=call.target.namespace,
        pod=call.target.name,
        container=container_named(query.get("container", ""), pod),
        arguments=arguments,
        has_input=query.get("stdin") in TRUE,
        has_terminal=query.get("tty") in TRUE,
    )


def _forward_request(call: Call) -> ForwardRequest:
    ports = [value for name, value in call.request.query if name == "ports"]
    if len(ports) != 1 or not ports[0].isdecimal() or not 0 < int(ports[0][:9]) < 2**16:
        raise bad_request(f"ports: {', '.join(ports) or 'missing'}: name one from 1 to 65535")
    return ForwardRequest(
        namespace=call.target.namespace, pod=call.target.name, port=int(ports[0])
    )


async def _execute(streams: PodStreams, request: ExecRequest, socket: Socket) -> None:
    with suppress(UnreachableError):
        try:
            async with streams.command(request) as command:
                await socket.send(bytes((Channel.STDOUT,)))
                ending = _ending(await _relay(command, socket))
        except StatusError as refusal:
            ending = refusal.document()
        except OSError as error:
            words = f"{request.arguments[0]!r} cannot be run: {error.strerror}"
            ending = failed(f"container {request.container} of {request.pod}: {words}").document()
        await socket.send(bytes((Channel.STATUS,)) + encode(ending))


async def _relay(command: RunningCommand, socket: Socket) -> int:
    """Pass everything on until the command has ended; return its exit code."""
    async with asyncio.TaskGroup() as tasks:
        outputs = [
            tasks.create_task(_send_output(command, socket, reader, channel))
            for reader, channel in (
                (command.output, Channel.STDOUT),
                (command.errors, Channel.STDERR),
            )
            if reader is not None
        ]
        taking = tasks.create_task(_take_input(command, socket))
        code = await command.process.ended()
        await asyncio.wait(outputs)
        taking.cancel()
    return code if code >= 0 else KILLED - code


async def _send_output(
    command: RunningCommand, socket: Socket, reader: asyncio.StreamReader, channel: Channel
) -> None:
    try:
        while data := await reader.read(exec_streams.PIECE_BYTES):
            await socket.send(bytes((channel,)) + data)
    except UnreachableError:
        command.process.send(signal.SIGKILL)


async def _take_input(command: RunningCommand, socket: Socket) -> None:
    """Take messages until the caller has left; then kill the command."""
    with suppress(UnreachableError):
        while (message := await socket.receive()) is not None:
            match message[:1], message[1:]:
                case (b"\x00", data):
                    await command.write(data)
                case (b"\x04", data):
                    _resize(command, data)
                case (b"\xff", b"\x00"):
                    await command.end_input()
                case _:  # no other channel is the caller's
                    pass
    command.process.send(signal.SIGKILL)


class _Size(msgspec.Struct):
    Width: int
    Height: int


def _resize(command: RunningCommand, data: bytes) -> None:
    """Change the terminal's size; ignore one that no terminal has."""
    with suppress(msgspec.DecodeError):
        size = msgspec.json.decode(data, type=_Size)
        if all(0 < side <= pod_exec.LARGEST_SIDE for side in (size.Width, size.Height)):
            command.resize(columns=size.Width, rows=size.Height)


def _ending(code: int) -> Document:
    if not code:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": exec_streams.EXIT_CODE, "message": str(code)}]},
    }


async def _forward(streams: PodStreams, request: ForwardRequest, socket: Socket) -> None:
    with suppress(UnreachableError):
        for channel in (pod_forward.DATA, pod_forward.ERROR):
            await socket.send(bytes((channel,)) + pod_forward.PORT.pack(request.port))
        try:
            reader, writer = await streams.dial(request)
        except (StatusError, OSError) as error:
            words = f"error forwarding port {request.port} to pod {request.pod}: {error}"
            await socket.send(bytes((pod_forward.ERROR,)) + words.encode())
            return
        try:
            await _splice(reader, writer, socket)
        finally:
            writer.close()


async def _splice(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, socket: Socket
) -> None:
    """Pass bytes on in both directions until one side has closed."""

    async def back() -> None:
        with suppress(OSError, UnreachableError):
            while data := await reader.read(pod_forward.PIECE_BYTES):
                await socket.send(bytes((pod_forward.DATA,)) + data)

    async def forth() -> None:
        with suppress(OSError, UnreachableError):
            while (message := await socket.receive()) is not None:
                if message[:1] == bytes((pod_forward.DATA,)):
                    writer.write(message[1:])
                    await writer.drain()

    async with asyncio.TaskGroup() as tasks:
        both = [tasks.create_task(back()), tasks.create_task(forth())]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for each in both:
            each.cancel()
