"""Commands in containers: one WebSocket each, with the streams as channels of it."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import attrs

from gpuruntime.kube.answers import CONNECT, Call, Status, refusal
from gpuruntime.kube.client import Client, naming
from gpuruntime.kube.errors import BadRequestError, MalformedAnswerError, UnreachableError
from gpuruntime.kube.transport import Socket
from gpuruntime.models.encoding import codec
from gpuruntime.models.kubernetes.exec_streams import (
    LAST_OUTPUT_SECONDS,
    PIECE_BYTES,
    PROTOCOL,
    Channel,
    Ending,
    Output,
)
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.pods import PODS

SUBRESOURCE: Final = "exec"
MOST_ARGUMENTS: Final = 64
# In a query it is at most three times as long, and the API server takes 1 MiB.
LARGEST_COMMAND: Final = 64 * 1024
LARGEST_SIDE: Final = 65_535  # the kubelet reads columns and rows into 16 bits


@attrs.frozen(kw_only=True, slots=True)
class Command:
    """A command for one container; with a terminal it has no stderr of its own."""

    container: str
    arguments: tuple[str, ...]
    has_input: bool = True
    has_terminal: bool = False


@asynccontextmanager
async def execute(client: Client, pod: Key, command: Command) -> AsyncIterator["Execution"]:
    """Start a command as `open_channels` does; the end of the block closes its streams."""
    async with open_channels(client, pod, command) as socket:
        yield Execution(socket, _call_of(pod))


@asynccontextmanager
async def open_channels(client: Client, pod: Key, command: Command) -> AsyncIterator[Socket]:
    """Start a command and yield its messages; the end of the block closes its streams.

    Raise BadRequestError for a command or a container that cannot run, and NotFoundError without
    the Pod. Raise OutcomeUnknownError if the command may run and cannot be followed.
    """
    call = _call_of(pod)
    fault = fault_of(command.arguments)
    if fault:
        raise BadRequestError(f"{call}: {fault}", 400)
    query = (
        ("container", command.container),
        *(("command", each) for each in command.arguments),
        ("stdin", str(command.has_input).lower()),
        ("stdout", "true"),
        ("stderr", str(not command.has_terminal).lower()),
        ("tty", str(command.has_terminal).lower()),
    )
    async with client.socket(PODS, pod, SUBRESOURCE, query, protocol=PROTOCOL) as socket:
        yield socket


def _call_of(pod: Key) -> Call:
    return Call(CONNECT, f"{PODS}/{SUBRESOURCE}", str(pod))


def fault_of(arguments: tuple[str, ...]) -> str:
    """Return what is wrong with a command and what to do, or an empty text."""
    if not arguments:
        return "the command is empty: name a program"
    if len(arguments) > MOST_ARGUMENTS:
        return (
            f"the command has {len(arguments)} arguments and may have {MOST_ARGUMENTS}: "
            "send a script through its input"
        )
    text = "".join(arguments)
    if "\0" in text or any("\ud800" <= each <= "\udfff" for each in text):
        return "the command contains NUL or what is no UTF-8: send it through the input"
    size = len(text.encode())
    if size > LARGEST_COMMAND:
        return (
            f"the command has {size} bytes and may have {LARGEST_COMMAND}: "
            "send a script through its input"
        )
    return ""


class Execution:
    """A command that runs. One task reads `output`, and any number of others write."""

    def __init__(self, socket: Socket, call: Call) -> None:
        self.exit_code: int | None = None  # set when `output` has ended well
        self._socket = socket
        self._call = call

    async def write(self, data: bytes) -> None:
        """Send input, and wait while the command reads too slowly."""
        for start in range(0, len(data), PIECE_BYTES):
            await self._send(Channel.STDIN, data[start : start + PIECE_BYTES])

    async def end_input(self) -> None:
        await self._send(Channel.CLOSE, bytes((Channel.STDIN,)))

    async def resize(self, *, columns: int, rows: int) -> None:
        """Tell the terminal its size. Raise BadRequestError for one that no terminal has."""
        if not (0 < columns <= LARGEST_SIDE and 0 < rows <= LARGEST_SIDE):
            size = f"{columns} x {rows}"
            raise BadRequestError(
                f"{self._call}: no terminal has {size} characters: use 1 to {LARGEST_SIDE}", 400
            )
        await self._send(Channel.RESIZE, codec.encode({"Width": columns, "Height": rows}))

    async def output(self) -> AsyncGenerator[Output, None]:
        """Yield until the command has ended, and set its exit code.

        Raise an ApiError if the command could not be run, and UnreachableError if the connection
        ended first: the command may run on.
        """
        ending: Ending | None = None
        while True:
            message = await self._next(ending)
            if message is None:
                break
            channel, data = message[:1], message[1:]
            if not data:  # the server opens each channel with an empty message
                continue
            match channel[0]:
                case Channel.STDOUT:
                    yield Output(data=data)
                case Channel.STDERR:
                    yield Output(data=data, is_error=True)
                case Channel.STATUS:
                    ending = ending or self._ending(data)
                case number:
                    raise MalformedAnswerError(f"{self._call}: unknown channel {number}")
        if ending is None:
            raise UnreachableError(f"{self._call}: it was cut off before it told an exit code")
        self.exit_code = self._exit_code(ending)

    async def _next(self, ending: Ending | None) -> bytes | None:
        """Return the next message; after the exit status no fault of the connection matters."""
        try:
            async with asyncio.timeout(None if ending is None else LAST_OUTPUT_SECONDS):
                with naming(self._call):
                    return await self._socket.receive()
        except (UnreachableError, TimeoutError):
            if ending is None:
                raise
            return None

    def _ending(self, data: bytes) -> Ending:
        try:
            return codec.decode(data, Ending)
        except codec.MalformedObjectError as error:
            raise MalformedAnswerError(f"{self._call}: the exit status: {error}") from error

    def _exit_code(self, ending: Ending) -> int:
        if ending.exit_code is not None:
            return ending.exit_code
        words = f"{ending.message} (check that the container runs and has the program)"
        raise refusal(self._call, Status(code=ending.code, reason=ending.reason, message=words))

    async def _send(self, channel: Channel, data: bytes) -> None:
        with naming(self._call):
            await self._socket.send(bytes((channel,)) + data)
