"""A WebSocket between a caller and a unit: after the handshake it is bytes in both directions.

No frame is parsed, so any size and any extension passes. Each side pauses the other while too many
bytes wait.
"""

import asyncio
import re
from contextlib import suppress
from typing import Final

import attrs
from aiohttp import hdrs, web
from multidict import CIMultiDict

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.concurrency.reads import READ_BYTES, bound_reads
from gpuruntime.concurrency.tasks import first_of
from gpuruntime.concurrency.waiting import is_set_within
from gpuruntime.gateway.connections import Connection
from gpuruntime.gateway.errors import Code, GatewayError
from gpuruntime.gateway.exchange import Relayed
from gpuruntime.gateway.gate import refused
from gpuruntime.gateway.headers import back
from gpuruntime.meter import Meter
from gpuruntime.relay.headers import fault_of
from gpuruntime.tickets.tokens import Refusal

_END: Final = b"\r\n\r\n"
_STATUS: Final = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: [^\r\n]*)?")
_HEADER: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n]*?)[ \t]*")
_SWITCHING: Final = 101
_FIRST_REFUSAL: Final = 300
# For the last bytes of a side that has ended, on their way to a slow one.
_LAST_SECONDS: Final = 60.0


@attrs.frozen(kw_only=True, slots=True)
class SpliceOptions:
    """Limits of one WebSocket; `buffered` is in bytes, for each direction."""

    head: int
    buffered: int
    connect_seconds: float
    head_seconds: float
    idle_seconds: float
    longest_seconds: float

    @property
    def pause_above(self) -> int:
        """The bytes that may wait before a side is paused, as one more read may come."""
        return max(0, self.buffered - READ_BYTES)


class Splice:
    """The state that both sides share. `news` is set when the handler has to look at it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.news = asyncio.Event()
        self.is_closed = False
        # The caller takes its bytes slowly: the unit is paused until it has.
        self.is_pressed = False
        self.moved_at = loop_time()
        self.to_unit = 0
        self.to_caller = 0

    def close(self) -> None:
        self.is_closed = True
        self.news.set()


class _Unit(asyncio.Protocol):
    """The unit's side: first its head, then bytes for the caller."""

    def __init__(self, splice: Splice, options: SpliceOptions) -> None:
        self.transport: asyncio.Transport
        # The head of the answer with what follows it, or nothing if the unit sent no whole head.
        self.head: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.is_writable = asyncio.Event()
        self._splice = splice
        self._options = options
        self._received = bytearray()
        self._caller: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.is_writable.set()
        bound_reads(transport)
        transport.set_write_buffer_limits(high=self._options.pause_above)

    def data_received(self, data: bytes) -> None:
        if self._caller is not None:
            self._send_on(data)
            return
        self._received += data
        if _END in self._received:
            self.transport.pause_reading()
            if not self.head.done():
                self.head.set_result(bytes(self._received))
        elif len(self._received) > self._options.head:
            self.transport.abort()

    def join(self, caller: asyncio.Transport, rest: bytes) -> None:
        """Send what follows the head, and all that comes, to the caller."""
        self._caller = caller
        caller.set_write_buffer_limits(high=self._options.pause_above)
        if not self.is_writable.is_set():  # what the caller sent before the handshake was over
            caller.pause_reading()
        if rest:
            self._send_on(rest)
        self.transport.resume_reading()

    def pause_writing(self) -> None:
        self.is_writable.clear()
        if self._caller is not None and not self._caller.is_closing():
            self._caller.pause_reading()

    def resume_writing(self) -> None:
        self.is_writable.set()
        if self._caller is not None and not self._caller.is_closing():
            self._caller.resume_reading()

    def connection_lost(self, _: Exception | None) -> None:
        if not self.head.done():
            self.head.set_result(b"")
        self.is_writable.set()
        self._splice.close()

    def _send_on(self, data: bytes) -> None:
        splice, caller = self._splice, self._caller
        if caller is None or caller.is_closing():
            return
        splice.moved_at = loop_time()
        splice.to_caller += len(data)
        caller.write(data)
        if caller.get_write_buffer_size() > self._options.pause_above:
            self.transport.pause_reading()
            splice.is_pressed = True
            splice.news.set()


class _FromCaller:
    """The parser to which aiohttp gives the bytes that follow the handshake."""

    def __init__(self, splice: Splice, unit: asyncio.Transport) -> None:
        self._splice = splice
        self._unit = unit

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        splice = self._splice
        splice.moved_at = loop_time()
        splice.to_unit += len(data)
        if not are_control_frames(data):
            splice.connection.touch()
        self._unit.write(data)
        return False, b""

    def feed_eof(self) -> None:
        self._splice.close()

    def set_exception(self, *_: object) -> None:
        self._splice.close()


def are_control_frames(data: bytes) -> bool:
    """Return whether a caller's bytes are whole pings, pongs and closes: no use of the unit.

    A browser answers each ping of the unit by itself.
    """
    at = 0
    while at + 6 <= len(data):
        opcode, length = data[at], data[at + 1]
        if opcode not in (0x88, 0x89, 0x8A) or not 0x80 <= length <= 0x80 + 125:
            return False
        at += 6 + length - 0x80
    return at == len(data)


async def splice(
    request: web.Request,
    relayed: Relayed,
    place: tuple[str, int],
    connection: Connection,
    options: SpliceOptions,
    meter: Meter,
) -> web.StreamResponse:
    """Pass a WebSocket on until a side ends. Raise GatewayError before the handshake is over."""
    state = Splice(connection)
    unit = await _connected(place, state, options)
    response: web.StreamResponse | None = None
    try:
        head = await _answer(unit, relayed, connection, options)
        response = _response_of(head, relayed)
        caller = request.transport
        if response.status != _SWITCHING or caller is None:
            return response
        await response.prepare(request)
        assert isinstance(caller, asyncio.Transport)
        request.protocol.set_parser(_FromCaller(state, unit.transport))  # type: ignore[arg-type]  # it asks for a reader of WebSockets, and calls these methods
        unit.join(caller, head.partition(_END)[2])
        await _until_ended(request, unit, state, options)
        await _flush(request, unit, connection)
        return response
    finally:
        meter.count("gateway_bytes_total", state.to_unit, direction="to_unit")
        meter.count("gateway_bytes_total", state.to_caller, direction="to_caller")
        is_joined = response is not None and response.prepared
        _close(unit, request if is_joined else None, is_cut=connection.ended.done())


async def _until_ended(
    request: web.Request, unit: _Unit, state: Splice, options: SpliceOptions
) -> None:
    ends_at = loop_time() + options.longest_seconds
    connection = state.connection

    def ended(_: object) -> None:
        state.news.set()

    connection.ended.add_done_callback(ended)
    try:
        while not state.is_closed and not connection.ended.done():
            now = loop_time()
            remaining = min(ends_at, state.moved_at + options.idle_seconds) - now
            if remaining <= 0:
                return
            if not await is_set_within(state.news, remaining):
                continue
            state.news.clear()
            if state.is_pressed and not state.is_closed:
                state.is_pressed = False
                async with asyncio.timeout(min(options.idle_seconds, ends_at - now)):
                    # A caller that takes nothing still sends, so its end may not wait for it.
                    await first_of(request.writer.drain(), _ending(connection))
                if not unit.transport.is_closing():
                    unit.transport.resume_reading()
    except (ConnectionError, TimeoutError):
        return
    finally:
        connection.ended.remove_done_callback(ended)


async def _flush(request: web.Request, unit: _Unit, connection: Connection) -> None:
    """Wait for a while until each side has taken what the other one sent before its end.

    The connection counts until then: its buffers are the memory that limits are for.
    """

    async def taken() -> None:
        await unit.is_writable.wait()
        await request.writer.drain()

    for transport in (unit.transport, request.transport):
        if isinstance(transport, asyncio.WriteTransport) and not transport.is_closing():
            transport.set_write_buffer_limits(high=0)
    with suppress(ConnectionError, TimeoutError):
        async with asyncio.timeout(_LAST_SECONDS):
            await first_of(taken(), _ending(connection))


async def _ending(connection: Connection) -> None:
    await asyncio.wait((connection.ended,))


def _close(unit: _Unit, request: web.Request | None, *, is_cut: bool) -> None:
    """Close the sides, and cut one off that has not taken all of its bytes."""
    for transport in (unit.transport, request.transport if request else None):
        if not isinstance(transport, asyncio.WriteTransport):
            continue
        if is_cut or transport.get_write_buffer_size():
            transport.abort()
        else:
            transport.close()


async def _connected(place: tuple[str, int], state: Splice, options: SpliceOptions) -> _Unit:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(options.connect_seconds):
            _, unit = await loop.create_connection(lambda: _Unit(state, options), *place)
    except (OSError, TimeoutError) as error:
        raise _fault(
            state.connection, "cannot be reached: check that the program listens"
        ) from error
    return unit


async def _answer(
    unit: _Unit, relayed: Relayed, connection: Connection, options: SpliceOptions
) -> bytes:
    """Send the handshake, and return the head of the answer with what follows it."""
    headers = relayed.headers.copy()
    headers[hdrs.CONNECTION], headers[hdrs.UPGRADE] = "Upgrade", "websocket"
    lines = [f"GET {relayed.target} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())]
    unit.transport.write("\r\n".join((*lines, "", "")).encode())
    await asyncio.wait(
        (unit.head, connection.ended),
        timeout=options.head_seconds,
        return_when=asyncio.FIRST_COMPLETED,
    )
    if connection.ended.done():
        raise refused(Refusal.REVOKED)
    if not unit.head.done():
        words = f"sent no answer for {options.head_seconds:g} s"
        raise _fault(connection, words, Code.TIMEOUT)
    if not unit.head.result():
        raise _fault(connection, "ended the connection without an answer")
    return unit.head.result()


def _response_of(head: bytes, relayed: Relayed) -> web.StreamResponse:
    """Return the unit's answer to the handshake, which may be a refusal. Raise GatewayError."""
    first, *lines = head.partition(_END)[0].split(b"\r\n")
    status = _STATUS.fullmatch(first)
    found = [_HEADER.fullmatch(line) for line in lines]
    if status is None or not all(found):
        raise GatewayError(Code.UPSTREAM_FAULT, "the unit sent an answer that is not HTTP")
    if int(status[1]) != _SWITCHING:
        if int(status[1]) < _FIRST_REFUSAL:
            words = f"the unit answered the WebSocket with status {int(status[1])}"
            raise GatewayError(Code.UPSTREAM_FAULT, words)
        return web.Response(status=int(status[1]), text="the unit opens no WebSocket here\n")
    headers = CIMultiDict(
        (each[1].decode(), each[2].decode(errors="surrogateescape")) for each in found if each
    )
    if name := fault_of(headers):
        raise GatewayError(Code.UPSTREAM_FAULT, f"the unit sent the malformed header {name!r}")
    kept = back(headers, relayed.own_origin, is_program=relayed.is_program)
    kept.popall(hdrs.CONTENT_LENGTH, None)
    kept[hdrs.CONNECTION], kept[hdrs.UPGRADE] = "Upgrade", "websocket"
    return web.StreamResponse(status=_SWITCHING, headers=kept)


def _fault(connection: Connection, words: str, code: Code = Code.UPSTREAM_FAULT) -> GatewayError:
    visitor = connection.visitor
    return GatewayError(code, f"port {visitor.port} of unit {visitor.claims.unit} {words}")
