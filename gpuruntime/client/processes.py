"""Programs in a unit's container: one WebSocket each, with the streams as channels of it."""

import asyncio
from collections.abc import AsyncGenerator

import attrs

from gpuruntime.client.errors import (
    CutOffError,
    LostAnswerError,
    UnitRefusedError,
    UnreadableAnswerError,
)
from gpuruntime.client.web_socket import Closed, Message, WebSocket
from gpuruntime.models.encoding import codec
from gpuruntime.models.kubernetes.exec_streams import (
    LAST_OUTPUT_SECONDS,
    PIECE_BYTES,
    Channel,
    Ending,
    Output,
)


@attrs.frozen(kw_only=True, slots=True)
class TerminalSize:
    columns: int
    rows: int


class Process:
    """A program that runs in a unit. One task reads `output`, and any number of others write."""

    def __init__(self, socket: WebSocket, unit: str) -> None:
        self.exit_code: int | None = None  # set when `output` has ended well
        self._socket = socket
        self._unit = unit

    async def write(self, data: bytes) -> None:
        """Send input, and wait while the program reads too slowly."""
        for start in range(0, len(data), PIECE_BYTES):
            await self._send(Channel.STDIN, data[start : start + PIECE_BYTES])

    async def end_input(self) -> None:
        await self._send(Channel.CLOSE, bytes((Channel.STDIN,)))

    async def resize(self, size: TerminalSize) -> None:
        await self._send(
            Channel.RESIZE, codec.encode({"Width": size.columns, "Height": size.rows})
        )

    async def wait(self) -> int:
        """Return the exit code, and ignore the output that is left."""
        async for _ in self.output():
            pass
        assert self.exit_code is not None
        return self.exit_code

    async def output(self) -> AsyncGenerator[Output, None]:
        """Yield until the program has ended, and set its exit code.

        Raise UnitRefusedError if it could not be run. Raise CutOffError if the connection ended
        first: the program may run on.
        """
        ending: Ending | None = None
        while isinstance(message := await self._next(ending), bytes):
            channel, data = message[:1], message[1:]
            if not data:  # a channel begins with an empty message
                continue
            match channel[0]:
                case Channel.STDOUT:
                    yield Output(data=data)
                case Channel.STDERR:
                    yield Output(data=data, is_error=True)
                case Channel.STATUS:
                    ending = ending or self._ending(data)
                case number:
                    raise UnreadableAnswerError(f"the gateway sends an unknown channel {number}")
        if ending is None:
            why = message.reason if isinstance(message, Closed) else "unexpected text"
            raise self._cut_off(why or "the gateway closed the connection")
        self.exit_code = self._exit_code(ending)

    async def _next(self, ending: Ending | None) -> Message | None:
        """Return the next message; after the exit status no fault of the connection matters."""
        try:
            async with asyncio.timeout(None if ending is None else LAST_OUTPUT_SECONDS):
                return await self._socket.receive()
        except LostAnswerError as error:
            if ending is None:
                raise self._cut_off(str(error)) from error
            return None
        except TimeoutError:
            return None

    def _ending(self, data: bytes) -> Ending:
        try:
            return codec.decode(data, Ending)
        except codec.MalformedObjectError as error:
            raise UnreadableAnswerError(f"the exit status is malformed: {error}") from error

    def _exit_code(self, ending: Ending) -> int:
        if ending.exit_code is not None:
            return ending.exit_code
        raise UnitRefusedError(
            f"unit {self._unit} cannot run it: {ending.message} "
            "(check that the container runs and has the program)"
        )

    def _cut_off(self, why: str) -> CutOffError:
        return CutOffError(
            f"the connection to unit {self._unit} ended before the program did: {why}"
        )

    async def _send(self, channel: Channel, data: bytes) -> None:
        await self._socket.send(bytes((channel,)) + data)
