"""The relay to a storage's file server: it passes bytes on in both directions as they come.

It keeps only what fits the buffers of two connections, so a slow side slows the other one down.
Each transfer has its own connection, so that bytes of two transfers cannot mix. An answer that
fails after its head has left ends as a broken connection, never as a shorter file.
"""

import asyncio
import socket
from collections import Counter
from contextlib import suppress
from typing import Any, Final

import aiohttp
import attrs
import structlog
from aiohttp import hdrs, web
from multidict import CIMultiDict
from yarl import URL

from gpuruntime.api.errors import (
    BodyTooLargeError,
    CrowdedError,
    DeadlineError,
    RequestError,
    SlowBodyError,
    UpstreamFaultError,
)
from gpuruntime.api.files.file_servers import FileServer
from gpuruntime.api.files.headers import back
from gpuruntime.api.files.limits import FileLimits
from gpuruntime.api.files.paths import is_below
from gpuruntime.relay.timeouts import End, TransferTimeouts, watched
from gpuruntime.relay.transfer import (
    AUTOMATIC,
    PIECE_BYTES,
    RECEIVED_BYTES,
    Upload,
    cut,
    download,
    fault_of_head,
)

_NO_ANSWER: Final = "ended the connection without an answer"
# A file server that has just become ready is not known on every node yet. Each number is the
# seconds before one more attempt after a refused connection.
_PAUSES: Final = (0.1, 0.3, 0.6)
# The caller has left and never reads this status.
_LEFT: Final = 499

log = structlog.get_logger()


@attrs.frozen(kw_only=True, slots=True)
class RelayRequest:
    """A request to the file server; `target` is path and query as the caller sent them.

    `caller` is empty if callers are not identified.
    """

    accessor: FileServer
    target: str
    headers: CIMultiDict[str]
    caller: str = ""

    @property
    def url(self) -> URL:
        return URL(self.accessor.origin + self.target, encoded=True)


class FileRelay:
    def __init__(self, limits: FileLimits) -> None:
        self._limits = limits
        # Transfers of each caller in progress; callers without one are not in it.
        self._counts: Counter[str] = Counter()

    async def relay(self, request: web.Request, relayed: RelayRequest) -> web.StreamResponse:
        """Relay one request; raise RequestError while no byte of the answer has left."""
        limits = self._limits
        self._demand_room(relayed.caller)
        if (request.content_length or 0) > limits.most_bytes:
            raise _too_large(limits)
        self._counts[relayed.caller] += 1
        try:
            return await _Exchange(request, relayed, limits).run()
        finally:
            self._counts -= Counter((relayed.caller,))

    def _demand_room(self, caller: str) -> None:
        """Raise CrowdedError if no place is left; one caller alone must not take all places."""
        limits, of_caller = self._limits, self._counts[caller]
        if self._counts.total() >= limits.at_once:
            raise CrowdedError(
                f"{limits.at_once} file transfers are in progress already: retry later"
            )
        if caller and of_caller >= limits.at_once_each:
            raise CrowdedError(
                f"{caller} has {of_caller} file transfers in progress: wait until some of them end"
            )


class _Exchange:
    def __init__(self, request: web.Request, relayed: RelayRequest, limits: FileLimits) -> None:
        self._request = request
        self._relayed = relayed
        self._limits = limits
        self._timeouts = TransferTimeouts(
            request, idle_seconds=limits.idle_seconds, longest_seconds=limits.longest_seconds
        )
        self._upload = Upload(
            request,
            moved=self._timeouts.moved,
            most_bytes=limits.most_bytes,
            too_large=lambda: _too_large(limits),
        )
        self._count = 0
        self._sockets: list[socket.socket] = []
        self._was_reached = False
        # The answer, set just before its head leaves.
        self._response: web.StreamResponse | None = None

    async def run(self) -> web.StreamResponse:
        try:
            async with watched(self._timeouts):
                return await self._send_with_retries()
        except (aiohttp.ClientError, OSError, RequestError) as error:
            return self._ended_early(error)
        finally:
            self._shut_down()

    async def _send_with_retries(self) -> web.StreamResponse:
        """Retry the connect only before any byte was sent and before the body was requested."""
        for pause in _PAUSES:
            try:
                return await self._send()
            except aiohttp.ClientConnectorError:
                if self._was_reached or self._upload.is_begun:
                    raise
            self._sockets.clear()
            await asyncio.sleep(pause)
        return await self._send()

    async def _send(self) -> web.StreamResponse:
        """Send the request and its body; the address is numeric, so no name is resolved."""
        connector = aiohttp.TCPConnector(
            force_close=True, limit=1, use_dns_cache=False, socket_factory=self._open_socket
        )
        async with (
            aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                read_bufsize=PIECE_BYTES,
                skip_auto_headers=AUTOMATIC,
                timeout=aiohttp.ClientTimeout(
                    total=None, sock_connect=self._limits.connect_seconds
                ),
            ) as session,
            session.request(
                self._request.method,
                self._relayed.url,
                headers=self._upload.with_length(self._relayed.headers),
                data=self._upload.chunks() if self._upload.is_there else None,
                allow_redirects=False,
            ) as answer,
        ):
            response = self._response_of(answer)
            self._response = response
            await response.prepare(self._request)
            await download(
                answer, self._request, response, taken=self._take, moved=self._timeouts.moved
            )
            answer.close()  # ends an upload for which the answer did not wait
            return response

    def _response_of(self, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        if words := fault_of_head(answer):
            raise self._fault(words)
        location = answer.headers.get(hdrs.LOCATION)
        if location is not None and not is_below(location, self._relayed.accessor.storage):
            raise self._fault("redirected out of the storage")
        is_asked_for_all = self._request.method != hdrs.METH_HEAD
        if is_asked_for_all and (answer.content_length or 0) > self._limits.most_bytes:
            raise self._too_much()
        return web.StreamResponse(status=answer.status, headers=back(answer.headers))

    def _take(self, count: int) -> None:
        self._count += count
        if self._count > self._limits.most_bytes:
            raise self._too_much()

    def _ended_early(self, error: Exception) -> web.StreamResponse:
        request, response = self._request, self._response
        has_left = request.transport is None or request.transport.is_closing()
        if has_left:
            return response or web.Response(status=_LEFT)
        failure = self._error_for(error)
        log.info("file relay failed", storage=self._relayed.accessor.storage, reason=str(failure))
        if response is None:
            raise failure from error
        cut(request)
        return response

    def _error_for(self, error: Exception) -> RequestError:
        match self._timeouts.end:
            case End.SILENT if self._upload.is_awaited:
                message = f"no byte of the body came for {self._limits.idle_seconds:g} s"
                return SlowBodyError(f"{message}: send it again")
            case End.SILENT:
                words = f"sent nothing for {self._limits.idle_seconds:g} s"
                return DeadlineError(f"{self._whose} {words}: its outcome is unknown")
            case End.TOO_LONG:
                words = f"took longer than {self._limits.longest_seconds:g} s"
                return DeadlineError(f"{self._whose} {words}: request a range, or send less")
            case _:
                return (
                    _request_error(self._upload.failure)
                    or _request_error(error)
                    or self._fault(self._fault_words(error))
                )

    @property
    def _whose(self) -> str:
        return f"the accessor of storage {self._relayed.accessor.storage}"

    def _fault_words(self, error: Exception) -> str:
        match error:
            case aiohttp.ConnectionTimeoutError() | aiohttp.ClientConnectorError():
                return _NO_ANSWER if self._was_reached else "cannot be reached"
            case aiohttp.ClientResponseError():
                return "sent an answer that is not HTTP"
            case aiohttp.ClientPayloadError():
                return "broke off its answer"
            case _:
                return _NO_ANSWER

    def _fault(self, words: str) -> UpstreamFaultError:
        return UpstreamFaultError(f"{self._whose} {words}")

    def _too_much(self) -> UpstreamFaultError:
        words = f"sent more than {self._limits.most_bytes} bytes: request a range"
        return self._fault(words)

    def _open_socket(self, address: Any) -> socket.socket:
        """Keep the socket to shut it down: aiohttp's close waits until the last byte was taken.

        Refuse a second one: aiohttp repeats requests that it considers harmless, and we do not.
        """
        if self._sockets:
            self._was_reached = True
            raise OSError("a request is sent once")
        family, kind, protocol, *_ = address
        made = socket.socket(family, kind, protocol)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVED_BYTES)
        self._sockets.append(made)
        return made

    def _shut_down(self) -> None:
        for each in self._sockets:
            with suppress(OSError):  # it is already closed
                each.shutdown(socket.SHUT_RDWR)


def _too_large(limits: FileLimits) -> BodyTooLargeError:
    return BodyTooLargeError(f"the file is larger than {limits.most_bytes} bytes")


def _request_error(error: Exception | None) -> RequestError | None:
    return error if isinstance(error, RequestError) else None
