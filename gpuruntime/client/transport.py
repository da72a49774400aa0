"""Requests to one server: bounded in time and size, and retried if that is safe."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from itertools import count
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import aiohttp
import attrs
from aiohttp import hdrs
from yarl import URL

from gpuruntime.client.credentials import authorization_of, tls_of
from gpuruntime.client.errors import (
    ClientError,
    LostAnswerError,
    UnreachableGatewayError,
    UnreachableServerError,
    UnreadableAnswerError,
    UntrustedServerError,
)
from gpuruntime.client.loopback import LoopbackResolver
from gpuruntime.client.messages import JSON, Answer, Request, problem_of
from gpuruntime.client.options import Options
from gpuruntime.client.retries import Repeat, may_repeat, pause_seconds
from gpuruntime.client.web_socket import LARGEST_MESSAGE, Connection, WebSocket, closing
from gpuruntime.concurrency.tasks import task_group
from gpuruntime.errors import ConfigurationError

ResultT = TypeVar("ResultT")

# Well below the time after which the API closes an idle connection.
_KEEP_SECONDS: Final = 15.0
_PIECE_BYTES: Final = 64 * 1024
# The limit of an error's body if the answer itself is a stream.
_MOST_PROBLEM_BYTES: Final = 64 * 1024
_AS_IT_IS: Final = "identity"
_BODY_TIMEOUT: Final = 408


class SendOnce:
    """Let aiohttp send a request once; by itself it repeats some when a kept connection breaks.

    Only `retries` decides what is sent again after a lost answer.
    """

    def __init__(self) -> None:
        self._is_sent = False

    async def __call__(
        self,
        request: aiohttp.ClientRequest,
        handler: Callable[[aiohttp.ClientRequest], Awaitable[aiohttp.ClientResponse]],
    ) -> aiohttp.ClientResponse:
        if self._is_sent:
            raise aiohttp.ServerDisconnectedError
        self._is_sent = True
        return await handler(request)


async def raise_refusal(
    request: aiohttp.ClientRequest,
    handler: Callable[[aiohttp.ClientRequest], Awaitable[aiohttp.ClientResponse]],
) -> aiohttp.ClientResponse:
    """Raise the gateway's own words if it opens no WebSocket: aiohttp drops such answers."""
    response = await handler(request)
    if response.status == HTTPStatus.SWITCHING_PROTOCOLS:
        return response
    async with response:
        raise problem_of(await _read_whole(response, _MOST_PROBLEM_BYTES))


@attrs.frozen(slots=True)
class Stream:
    """An answer that is read as it comes; its pieces raise LostAnswerError if it breaks off."""

    _response: aiohttp.ClientResponse
    _server: str

    @property
    def headers(self) -> Mapping[str, str]:
        return _headers(self._response)

    async def pieces(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._response.content.iter_any():
                yield piece
        except (aiohttp.ClientError, OSError) as error:
            raise LostAnswerError(f"{self._server}: the answer broke off: {_cause(error)}") from (
                error
            )


class Transport:
    def __init__(
        self, session: aiohttp.ClientSession, options: Options, *, rng: random.Random
    ) -> None:
        self._session = session
        self._options = options
        self._root = root_of(options.server)
        self._rng = rng

    async def exchange(self, request: Request) -> Answer:
        """Return an answer with a status below 429 other than 408; raise ClientError otherwise."""

        async def once() -> Answer:
            timeout = request.timeout_seconds or self._options.timeout_seconds
            async with (
                self._translated(timeout),
                asyncio.timeout(timeout),
                self._response_to(request, request.body) as response,
            ):
                return await _read_whole(response, self._options.most_bytes)

        return await self._with_retries(request, lambda: self._unless_retryable(once))

    @asynccontextmanager
    async def stream(
        self, request: Request, *, silence_seconds: float | None = None
    ) -> AsyncIterator[Stream]:
        """Yield the stream of an answer; raise ClientError for an answer without success.

        The timeout of an attempt ends when the answer begins. From then on the stream may be
        silent for `silence_seconds`, or without limit.
        """
        silence = aiohttp.ClientTimeout(
            total=None, connect=self._options.connect_seconds, sock_read=silence_seconds
        )
        opened = await self._with_retries(request, lambda: self._opened(request, silence))
        try:
            yield Stream(opened, self._options.server)
        finally:
            opened.close()

    async def upload(self, request: Request, body: AsyncIterator[bytes]) -> Answer:
        """Send a body once, when the server asks for it; it is never retried, as it is used up.

        The timeout counts until the server asks for the body, and again from its last piece on.
        """
        clock, patience = asyncio.get_running_loop().time, self._options.timeout_seconds
        async with self._translated(patience), asyncio.timeout(patience) as waiting:

            async def asked_for() -> AsyncIterator[bytes]:
                waiting.reschedule(None)
                async for piece in body:
                    yield piece
                waiting.reschedule(clock() + patience)

            expecting = attrs.evolve(
                request, headers={**request.headers, hdrs.EXPECT: "100-continue"}
            )
            async with self._response_to(expecting, asked_for()) as response:
                return await _read_whole(response, self._options.most_bytes)

    @asynccontextmanager
    async def web_socket(
        self, url: str, token: str, *, protocol: str = ""
    ) -> AsyncIterator[WebSocket]:
        """Yield a WebSocket of the gateway; raise ClientError if it opens none."""
        server = str(URL(url).origin())
        timeout = self._options.timeout_seconds

        async def once() -> Connection:
            async with self._translated(timeout, server), asyncio.timeout(timeout):
                return await self._upgraded(url, token, protocol)

        request = Request(method="GET", path=url, repeat=Repeat.UNDONE)
        try:
            connection = await self._with_retries(request, once)
        except UnreachableServerError as error:
            raise UnreachableGatewayError(f"the gateway at {error}") from error
        async with closing(connection):
            if protocol and connection.protocol != protocol:
                raise UnreadableAnswerError(
                    f"{server} does not speak {protocol}: is it a gateway?"
                )
            socket = WebSocket(connection, server)
            async with task_group() as group:
                keeping = group.create_task(socket.keep(), name=f"keep {server}")
                yield socket
                keeping.cancel()

    async def _upgraded(self, url: str, token: str, protocol: str) -> Connection:
        try:
            connection = await self._session.ws_connect(
                URL(url, encoded=True),
                protocols=(protocol,) if protocol else (),
                headers={
                    hdrs.AUTHORIZATION: f"Bearer {token}",
                    hdrs.USER_AGENT: "gpuruntime-client",
                },
                autoclose=False,
                autoping=False,
                max_msg_size=LARGEST_MESSAGE,
            )
        except aiohttp.WSServerHandshakeError as error:
            raise UnreadableAnswerError(
                f"{URL(url).origin()} opens no WebSocket: {error.message}"
            ) from error
        assert isinstance(connection, Connection)  # the class that the session makes
        return connection

    async def _with_retries(
        self, request: Request, attempt: Callable[[], Awaitable[ResultT]]
    ) -> ResultT:
        clock = asyncio.get_running_loop().time
        gives_up_at = clock() + self._options.patience_seconds
        for number in count(1):
            try:
                return await attempt()
            except ClientError as error:
                pause = pause_seconds(
                    number, asked_seconds=error.retry_after_seconds, fraction=self._rng.random()
                )
                is_over = number >= self._options.most_attempts or clock() + pause > gives_up_at
                if is_over or not may_repeat(request.repeat, error):
                    raise
            await asyncio.sleep(pause)
        raise AssertionError("counting has no end")

    async def _unless_retryable(self, once: Callable[[], Awaitable[Answer]]) -> Answer:
        """Raise an answer that may be better later, so that the request is retried."""
        answer = await once()
        if answer.status == _BODY_TIMEOUT or answer.status >= 429:
            raise problem_of(answer)
        return answer

    async def _opened(
        self, request: Request, silence: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        timeout = request.timeout_seconds or self._options.timeout_seconds
        async with self._translated(timeout), asyncio.timeout(timeout):
            response = await self._send(request, request.body, silence)
            if 200 <= response.status < 300:
                return response
            async with response:
                answer = await _read_whole(response, _MOST_PROBLEM_BYTES)
        raise problem_of(answer)

    @asynccontextmanager
    async def _response_to(
        self, request: Request, body: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        async with await self._send(request, body) as response:
            yield response

    async def _send(
        self, request: Request, body: Any, timeout: aiohttp.ClientTimeout | None = None
    ) -> aiohttp.ClientResponse:
        headers: dict[str, str] = {
            hdrs.ACCEPT_ENCODING: _AS_IT_IS,
            hdrs.USER_AGENT: "gpuruntime-client",
            **({hdrs.CONTENT_TYPE: JSON} if request.body is not None else {}),
            **request.headers,
        }
        if authorization := authorization_of(self._options):
            headers[hdrs.AUTHORIZATION] = authorization
        connect = aiohttp.ClientTimeout(total=None, connect=self._options.connect_seconds)
        return await self._session.request(
            request.method,
            URL(self._root + request.target, encoded=True),
            data=body,
            headers=headers,
            allow_redirects=False,  # no other server may see the token
            timeout=timeout or connect,
            middlewares=(SendOnce(),),
        )

    @asynccontextmanager
    async def _translated(self, timeout_seconds: float, server: str = "") -> AsyncIterator[None]:
        server = server or self._options.server
        try:
            yield
        except (aiohttp.ClientSSLError, aiohttp.ServerFingerprintMismatch) as error:
            raise UntrustedServerError(f"{server} is not trusted: {_cause(error)}") from error
        except aiohttp.ConnectionTimeoutError as error:
            raise UnreachableServerError(f"{server}: timed out") from error
        except aiohttp.ClientConnectorError as error:
            raise UnreachableServerError(f"{server}: {_refusal(error.os_error)}") from error
        except aiohttp.InvalidURL as error:
            raise ConfigurationError(f"server {server!r} is not an address") from error
        except TimeoutError as error:
            raise LostAnswerError(f"{server}: no answer within {timeout_seconds:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise LostAnswerError(f"{server}: no answer: {_cause(error)}") from error


@asynccontextmanager
async def connected(
    options: Options, *, rng: random.Random | None = None
) -> AsyncIterator[Transport]:
    """Yield a transport without connecting; raise ConfigurationError if the options are wrong."""
    resolver = LoopbackResolver()
    connector = aiohttp.TCPConnector(
        ssl=tls_of(options), limit=0, keepalive_timeout=_KEEP_SECONDS, resolver=resolver
    )
    # Requests name their own middlewares and timeouts; those of the session are of WebSockets.
    async with aiohttp.ClientSession(
        connector=connector,
        middlewares=(raise_refusal,),
        timeout=aiohttp.ClientTimeout(total=None, connect=options.connect_seconds),
        ws_response_class=Connection,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        read_bufsize=_PIECE_BYTES,
    ) as session:
        yield Transport(session, options, rng=rng or random.Random())  # noqa: S311 - spreads load
    await resolver.close()


async def _read_whole(response: aiohttp.ClientResponse, most: int) -> Answer:
    if response.headers.get(hdrs.CONTENT_ENCODING, _AS_IT_IS).lower() != _AS_IT_IS:
        raise UnreadableAnswerError(
            "the server's answer is compressed, although that was excluded"
        )
    body = bytearray()
    async for piece in response.content.iter_chunked(_PIECE_BYTES):
        body += piece
        if len(body) > most:
            raise UnreadableAnswerError(f"the server's answer is larger than {most} bytes")
    return Answer(status=response.status, headers=_headers(response), body=bytes(body))


def root_of(server: str) -> str:
    """Return the server's URL, with the path that the API is below; raise ConfigurationError."""
    try:
        parts = urlsplit(server)
        is_sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_sound = False
    else:
        is_sound = is_sound and not (parts.query or parts.fragment or parts.username)
    if not is_sound:
        raise ConfigurationError(f"server {server!r}: must be such as https://gpu.example.com")
    return server.rstrip("/")


def _headers(response: aiohttp.ClientResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}


def _refusal(error: OSError) -> str:
    """Return why no connection came about, in the few words of a shell."""
    if isinstance(error, ConnectionRefusedError):
        return "refused"
    return (error.strerror or _cause(error)).lower()


def _cause(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
