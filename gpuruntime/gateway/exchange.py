"""The exchange passes one request and its answer on, between a caller and a unit."""

import asyncio
from types import SimpleNamespace
from typing import Final

import aiohttp
import attrs
import structlog
from aiohttp import web
from multidict import CIMultiDict

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.gateway.connections import Connection
from gpuruntime.gateway.errors import Code, GatewayError
from gpuruntime.gateway.gate import refused
from gpuruntime.gateway.headers import back
from gpuruntime.gateway.upstreams import Upstreams
from gpuruntime.meter import Meter
from gpuruntime.relay.timeouts import End, TransferTimeouts, watched
from gpuruntime.relay.transfer import Upload, cut, download, fault_of_head
from gpuruntime.tickets.tokens import Refusal

# A unit that has just become ready is not known on every node yet. Each number is the seconds
# before one more attempt after a refused connection.
_PAUSES: Final = (0.1, 0.3, 0.6)
_REPEATABLE: Final = frozenset({"GET", "HEAD"})
# The caller has left and never reads this status.
_LEFT: Final = 499

log = structlog.get_logger()


@attrs.frozen(kw_only=True, slots=True)
class ExchangeOptions:
    """Limits of one exchange; `head_seconds` bounds the silence before an answer begins."""

    most_bytes: int
    head_seconds: float
    idle_seconds: float
    longest_seconds: float


@attrs.frozen(kw_only=True, slots=True)
class Relayed:
    """A request as it goes on: its path and query, and the headers for the unit."""

    target: str
    headers: CIMultiDict[str]
    own_origin: str
    is_program: bool


class Exchange:
    def __init__(
        self,
        request: web.Request,
        relayed: Relayed,
        connection: Connection,
        upstreams: Upstreams,
        options: ExchangeOptions,
        meter: Meter,
    ) -> None:
        self._request = request
        self._relayed = relayed
        self._connection = connection
        self._upstreams = upstreams
        self._options = options
        self._meter = meter
        self._timeouts = TransferTimeouts(
            request, idle_seconds=options.head_seconds, longest_seconds=options.longest_seconds
        )
        self._upload = Upload(
            request,
            moved=self._received,
            most_bytes=options.most_bytes,
            too_large=lambda: GatewayError(
                Code.BODY_TOO_LARGE, f"the body is larger than {options.most_bytes} bytes"
            ),
        )
        self._began_at = loop_time()
        self._sent_after = 0.0
        self._count = 0
        # The answer, set just before its head leaves.
        self._response: web.StreamResponse | None = None

    async def run(self) -> web.StreamResponse:
        """Return the answer; raise GatewayError while no byte of it has left."""
        if (self._request.content_length or 0) > self._options.most_bytes:
            raise GatewayError(
                Code.BODY_TOO_LARGE, f"the body is larger than {self._options.most_bytes} bytes"
            )
        self._connection.ended.add_done_callback(self._on_end)
        try:
            async with watched(self._timeouts):
                return await self._sent_with_retries()
        except (aiohttp.ClientError, OSError, GatewayError) as error:
            return self._ended_early(error)
        finally:
            self._connection.ended.remove_done_callback(self._on_end)
            self._meter.count("gateway_bytes_total", self._upload.count, direction="to_unit")
            self._meter.count("gateway_bytes_total", self._count, direction="to_caller")

    def _received(self) -> None:
        self._timeouts.moved()
        self._connection.touch()

    def _on_end(self, _: object) -> None:
        self._timeouts.revoke()

    async def _sent_with_retries(self) -> web.StreamResponse:
        """Repeat a refused connect, before the caller was asked for a body."""
        for pause in _PAUSES:
            try:
                return await self._sent_again()
            except aiohttp.ClientConnectorError:
                if self._upload.is_begun:
                    raise
            await asyncio.sleep(pause)
        return await self._sent_again()

    async def _sent_again(self) -> web.StreamResponse:
        """Repeat GET and HEAD once if a kept connection ended before any byte of an answer."""
        may_reuse = self._request.method in _REPEATABLE and not self._upload.is_there
        trace = SimpleNamespace(is_reused=False)
        try:
            return await self._sent(trace, may_reuse=may_reuse)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
            is_new = isinstance(error, aiohttp.ClientConnectorError)
            if is_new or not trace.is_reused or self._response is not None:
                raise
        return await self._sent(trace, may_reuse=False)

    async def _sent(self, trace: SimpleNamespace, *, may_reuse: bool) -> web.StreamResponse:
        request, visitor = self._request, self._connection.visitor
        url = self._upstreams.url(visitor, self._relayed.target)
        self._sent_after = loop_time() - self._began_at
        async with (
            self._upstreams.session(visitor, may_reuse=may_reuse) as session,
            session.request(
                request.method,
                url,
                headers=self._upload.with_length(self._relayed.headers),
                data=self._upload.chunks() if self._upload.is_there else None,
                allow_redirects=False,
                trace_request_ctx=trace,
            ) as answer,
        ):
            answered_at = loop_time()
            response = self._response_of(answer)
            self._response = response
            self._timeouts.idle_seconds = self._options.idle_seconds
            await response.prepare(request)
            added = self._sent_after + loop_time() - answered_at
            self._meter.observe("gateway_added_seconds", added)
            await download(answer, request, response, taken=self._take, moved=self._timeouts.moved)
            if self._upload.is_there:
                answer.close()  # ends an upload for which the answer did not wait
            return response

    def _response_of(self, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        if words := fault_of_head(answer):
            raise self._fault(words)
        relayed = self._relayed
        headers = back(answer.headers, relayed.own_origin, is_program=relayed.is_program)
        return web.StreamResponse(status=answer.status, reason=answer.reason, headers=headers)

    def _take(self, count: int) -> None:
        self._count += count
        if self._count > self._options.most_bytes:
            raise self._fault(f"sent more than {self._options.most_bytes} bytes")

    def _ended_early(self, error: Exception) -> web.StreamResponse:
        request, response = self._request, self._response
        if request.transport is None or request.transport.is_closing():
            return response or web.Response(status=_LEFT)
        failure = self._error_for(error)
        log.info("relay failed", unit=self._connection.visitor.claims.unit, reason=str(failure))
        if response is None:
            raise failure from error
        cut(request)
        return response

    def _error_for(self, error: Exception) -> GatewayError:
        match self._timeouts.end:
            case End.REVOKED:
                return refused(Refusal.REVOKED)
            case End.SILENT if self._upload.is_awaited:
                seconds = self._timeouts.idle_seconds
                return GatewayError(
                    Code.BODY_TIMEOUT, f"no byte of the body came for {seconds:g} s: send it again"
                )
            case End.SILENT:
                words = f"sent nothing for {self._timeouts.idle_seconds:g} s"
                return GatewayError(Code.TIMEOUT, f"{self._whose} {words}: its outcome is unknown")
            case End.TOO_LONG:
                words = f"took longer than {self._options.longest_seconds:g} s"
                return GatewayError(Code.TIMEOUT, f"{self._whose} {words}")
            case _:
                given = self._upload.failure or error
                return given if isinstance(given, GatewayError) else self._fault(_words_of(error))

    @property
    def _whose(self) -> str:
        visitor = self._connection.visitor
        return f"port {visitor.port} of unit {visitor.claims.unit}"

    def _fault(self, words: str) -> GatewayError:
        return GatewayError(Code.UPSTREAM_FAULT, f"{self._whose} {words}")


def _words_of(error: Exception) -> str:
    match error:
        case aiohttp.ConnectionTimeoutError() | aiohttp.ClientConnectorError():
            return "cannot be reached: check that the program listens"
        case aiohttp.ClientResponseError():
            return "sent an answer that is not HTTP"
        case aiohttp.ClientPayloadError():
            return "broke off its answer"
        case _:
            return "ended the connection without an answer"
