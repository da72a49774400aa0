"""The HTTP server: aiohttp's, with limits and with an answer to bytes that are not HTTP.

Such bytes reach no layer: aiohttp answers them itself, as text, and logs a traceback. Here
they get the same error as any other bad request.

Bodies are not decompressed, as no route accepts a compressed one. The server ends connections that
send no request, send too slowly, or do not take their answer, and bounds their number.
"""

import asyncio
from http import HTTPStatus
from random import Random
from typing import Any

import attrs
import structlog
from aiohttp import hdrs, web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong

from gpuruntime.api.errors import (
    HeadTooLargeError,
    MalformedRequestError,
    NotServingError,
    RequestError,
)
from gpuruntime.api.http.layers import new_request_id
from gpuruntime.api.http.problems import problem_answer
from gpuruntime.api.http.security_headers import add_common_headers, common_headers
from gpuruntime.concurrency.reads import READ_BYTES, bound_reads

log = structlog.get_logger()


@attrs.frozen(kw_only=True, slots=True)
class ConnectionLimits:
    """`head_seconds` runs from a head's first byte to its end, `idle_seconds` to its first byte.

    `head_bytes` bounds a head as it is read: its request line, each header, and all together.
    `answer_seconds` runs until a caller has taken an answer, or the end of a streamed one.
    """

    head_seconds: float
    head_bytes: int
    answer_seconds: float
    # Longer than proxies in front keep their connections, which most do for a minute.
    idle_seconds: float
    most: int


class ServerRunner(web.AppRunner):
    def __init__(
        self,
        app: web.Application,
        *,
        rng: Random,
        limits: ConnectionLimits,
        **options: Any,
    ) -> None:
        super().__init__(app, handle_signals=False, access_log=None, **options)
        self._rng = rng
        self._limits = limits

    async def _make_server(self) -> web.Server:
        made = await super()._make_server()
        return _Server(
            made.request_handler,
            request_factory=made.request_factory,
            handler_cancellation=made.handler_cancellation,
            rng=self._rng,
            limits=self._limits,
        )


class _Server(web.Server):
    def __init__(
        self, *arguments: Any, rng: Random, limits: ConnectionLimits, **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self._options: dict[str, Any] = {
            "access_log": None,
            "auto_decompress": False,
            "keepalive_timeout": limits.idle_seconds,
            "max_line_size": limits.head_bytes,
            "max_field_size": limits.head_bytes,
            "read_bufsize": READ_BYTES // 2,
            "rng": rng,
            "limits": limits,
        }

    def __call__(self) -> web.RequestHandler:
        return _Connection(self, loop=asyncio.get_running_loop(), **self._options)


class _Connection(web.RequestHandler):
    __slots__ = ("_head_bytes", "_late", "_limits", "_rng")

    def __init__(
        self, *arguments: Any, rng: Random, limits: ConnectionLimits, **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self._rng = rng
        self._limits = limits
        # Ends the connection if the awaited head is not complete by then.
        self._late: asyncio.TimerHandle | None = None
        # Bytes of the awaited head that have come.
        self._head_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        bound_reads(transport)
        assert self._manager is not None
        if len(self._manager.connections) > self._limits.most:
            log.warning("connection refused: the limit is reached", most=self._limits.most)
            self._refuse(
                NotServingError("this replica holds as many connections as it can: retry later")
            )

    def connection_lost(self, exc: BaseException | None) -> None:
        self._forget_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        before = self._request_count
        super().data_received(data)
        if self._request_count > before:
            self._forget_head()
        elif self._is_between_requests():
            self._await_head()
            self._head_bytes += len(data)
            if self._head_bytes > self._limits.head_bytes:
                self._refuse(HeadTooLargeError(_too_large(self._limits.head_bytes)))

    def _is_between_requests(self) -> bool:
        """Return whether the next bytes begin a head, and are not the rest of an unread body."""
        return self._waiter is not None and not self._waiter.done()

    def _await_head(self) -> None:
        if self._late is None:
            loop = asyncio.get_running_loop()
            self._late = loop.call_later(self._limits.head_seconds, self._end_late)

    def _forget_head(self) -> None:
        self._head_bytes = 0
        if self._late is not None:
            self._late.cancel()
            self._late = None

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send the answer in bounded time, and close the connection of a caller that was slow."""
        loop = asyncio.get_running_loop()
        # asyncio.timeout costs three times as much, on every request.
        late = loop.call_later(self._limits.answer_seconds, self._end_untaken)
        try:
            finished = await super().finish_response(request, resp, start_time)
        finally:
            late.cancel()
        if resp.status == HTTPStatus.REQUEST_TIMEOUT:
            self.force_close()
        return finished

    def _end_untaken(self) -> None:
        """End the connection; what waits for it to take the answer gets a ConnectionError."""
        log.debug("answer not taken in time", peer=self.peername)
        if self.transport is not None:
            self.transport.abort()

    def _end_late(self) -> None:
        self._late = None
        log.debug("no request came in time", peer=self.peername)
        self.force_close()

    @property
    def _is_encrypted(self) -> bool:
        transport = self.transport
        return transport is not None and transport.get_extra_info("sslcontext") is not None

    def _refuse(self, error: RequestError) -> None:
        """Answer before any request: some clients that wait for an answer will read it."""
        answer = problem_answer(error, hdrs.METH_ANY)
        given = common_headers(new_request_id(self._rng), is_encrypted=self._is_encrypted)
        headers = {**answer.headers, **given, str(hdrs.CONNECTION): "close"}
        body = answer.body if isinstance(answer.body, bytes) else b""
        lines = [f"{name}: {value}" for name, value in headers.items()]
        head = "\r\n".join((f"HTTP/1.1 {answer.status} {answer.reason}", *lines))
        if isinstance(self.transport, asyncio.WriteTransport):
            self.transport.write(f"{head}\r\n\r\n".encode() + body)
        self.force_close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer bytes that are not HTTP, and close: the start of the next request is unknown."""
        if not isinstance(exc, HttpProcessingError) or request.writer.output_size:
            return super().handle_error(request, status, exc, message)
        error = _error_of(exc, self._limits.head_bytes)
        log.debug("request is not HTTP", peer=request.remote, reason=str(error))
        answer = problem_answer(error, hdrs.METH_ANY)
        add_common_headers(answer, new_request_id(self._rng), is_encrypted=self._is_encrypted)
        answer.force_close()
        return answer


def _error_of(error: HttpProcessingError, head_bytes: int) -> RequestError:
    """Return the error with the first line, which says what is wrong; others quote the bytes."""
    if isinstance(error, LineTooLong):
        return HeadTooLargeError(_too_large(head_bytes))
    reason = error.message.strip().splitlines()[0].rstrip(":.")
    return MalformedRequestError(
        f"the bytes are not an HTTP request: {reason[:1].lower()}{reason[1:]}"
    )


def _too_large(head_bytes: int) -> str:
    return f"the head of the request is larger than {head_bytes} bytes: send less"
