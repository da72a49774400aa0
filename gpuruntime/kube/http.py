"""The transport over HTTP: kubernetes_asyncio's REST client with our deadlines and renewals."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import datetime
from urllib.parse import urlencode

import aiohttp
import attrs
from kubernetes_asyncio.client.rest import RESTClientObject
from yarl import URL

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.kube.connect.credentials import Connection, Credentials
from gpuruntime.kube.connect.endpoint import Endpoint, Source
from gpuruntime.kube.connect.sessions import (
    CONNECT_TIMEOUT_SECONDS,
    RedirectedError,
    RefusedUpgradeError,
)
from gpuruntime.kube.errors import MalformedAnswerError, OutcomeUnknownError, UnreachableError
from gpuruntime.kube.transport import Request, Response, Socket, StreamResponse
from gpuruntime.kube.web_socket import (
    CLOSING_SECONDS,
    LARGEST_MESSAGE,
    HttpSocket,
    WebSocket,
    closing,
)

UNAUTHORIZED = 401
LARGEST_REFUSAL = 2**16


async def connect(source: Source, *, now: Callable[[], datetime]) -> "HttpTransport":
    """Return a transport without contacting the server. Raise ConfigurationError."""
    credentials = Credentials(source, now=now)
    try:
        await credentials.start()
    except BaseException:
        await credentials.close()
        raise
    return HttpTransport(credentials)


class HttpTransport:
    """Repeat a request once, and only if the server refused its credentials."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    async def request(self, request: Request) -> Response:
        deadline = loop_time() + request.timeout_seconds
        connection = await self._credentials.current(deadline)
        response = await _exchange(request, connection, deadline)
        if response.status == UNAUTHORIZED:
            renewed = await self._credentials.renewed(connection, deadline)
            if renewed is not None:
                response = await _exchange(request, renewed, deadline)
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamResponse]:
        deadline = loop_time() + request.timeout_seconds
        connection = await self._credentials.current(deadline)
        async with AsyncExitStack() as stack:
            response = await _begin_stream(stack, request, connection, deadline)
            if response.status == UNAUTHORIZED:
                renewed = await self._credentials.renewed(connection, deadline)
                if renewed is not None:
                    response = await _begin_stream(stack, request, renewed, deadline)
            yield _Stream(response)

    @asynccontextmanager
    async def socket(self, request: Request, protocol: str) -> AsyncIterator[Socket | Response]:
        deadline = loop_time() + request.timeout_seconds
        connection = await self._credentials.current(deadline)
        async with AsyncExitStack() as stack:
            opened = await _begin_socket(stack, request, protocol, connection, deadline)
            if opened.status == UNAUTHORIZED:
                renewed = await self._credentials.renewed(connection, deadline)
                if renewed is not None:
                    opened = await _begin_socket(stack, request, protocol, renewed, deadline)
            yield opened

    async def close(self) -> None:
        await self._credentials.close()


@attrs.frozen(slots=True)
class _Stream:
    _response: aiohttp.ClientResponse

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._response.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, OSError) as error:
            raise UnreachableError(f"the stream broke: {_reason(error)}") from error


async def _exchange(request: Request, connection: Connection, deadline: float) -> Response:
    client = connection.sessions.requests
    async with connection.sessions.use():
        with _translated(request, connection.access):
            async with asyncio.timeout_at(deadline):
                response = await _send(request, connection.access, client, deadline)
                async with response:
                    body = await response.read()
    return Response(status=response.status, headers=response.headers, body=body)


async def _begin_stream(
    stack: AsyncExitStack, request: Request, connection: Connection, deadline: float
) -> aiohttp.ClientResponse:
    client = connection.sessions.streams
    await stack.enter_async_context(connection.sessions.use())
    with _translated(request, connection.access):
        async with asyncio.timeout_at(deadline):
            response = await _send(request, connection.access, client, deadline)
    stack.callback(_cut, response)
    return response


async def _begin_socket(
    stack: AsyncExitStack, request: Request, protocol: str, connection: Connection, deadline: float
) -> Socket | Response:
    await stack.enter_async_context(connection.sessions.use())
    with _translated(request, connection.access):
        async with asyncio.timeout_at(deadline):
            try:
                web_socket = await _upgrade(request, protocol, connection)
            except (RedirectedError, RefusedUpgradeError) as refused:
                return await _refusal(refused.response)
    await stack.enter_async_context(closing(web_socket))
    if web_socket.protocol != protocol:
        raise MalformedAnswerError(
            f"{connection.access.server}: the WebSocket does not speak {protocol}: "
            "it needs Kubernetes 1.30 or newer"
        )
    return HttpSocket(web_socket)


async def _upgrade(request: Request, protocol: str, connection: Connection) -> WebSocket:
    access, client = connection.access, connection.sessions.streams
    try:
        web_socket: WebSocket = await client.pool_manager.ws_connect(
            _url(access, request),
            protocols=(protocol,),
            headers=_request_headers(access, request),
            proxy=client.proxy,
            proxy_headers=client.proxy_headers,
            server_hostname=client.server_hostname,
            timeout=aiohttp.ClientWSTimeout(ws_close=CLOSING_SECONDS),
            autoclose=False,
            autoping=False,
            max_msg_size=LARGEST_MESSAGE,
        )
    except aiohttp.WSServerHandshakeError as error:
        words = f"{access.server}: the answer opens no WebSocket: {error.message}"
        raise MalformedAnswerError(words) from error
    return web_socket


async def _refusal(response: aiohttp.ClientResponse) -> Response:
    """Read the beginning of a refusal, and end its connection."""
    try:
        body = bytearray()
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) >= LARGEST_REFUSAL:
                break
        return Response(status=response.status, headers=response.headers, body=bytes(body))
    finally:
        _cut(response)


def _cut(response: aiohttp.ClientResponse) -> None:
    """Abort a stream that is left early: an orderly end of TLS could outlive the loop."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    response.close()


async def _send(
    request: Request, access: Endpoint, client: RESTClientObject, deadline: float
) -> aiohttp.ClientResponse:
    """Send the request. The fence is checked last, after every wait for credentials."""
    left = deadline - loop_time()
    if left <= 0:
        raise UnreachableError(f"{access.server}: not sent: the deadline passed before")
    if request.fence is not None:
        request.fence()
    method, url = request.method, _url(access, request)
    headers, timeout = _request_headers(access, request), _connect_timeout(left)
    try:
        if request.body is None:
            response: aiohttp.ClientResponse = await client.request(
                method, url, headers=headers, _preload_content=False, _request_timeout=timeout
            )
        else:
            # `client.request` encodes a JSON body itself, and takes no bytes for one.
            response = await client.pool_manager.request(
                method,
                url,
                data=request.body,
                headers=headers,
                proxy=client.proxy,
                proxy_headers=client.proxy_headers,
                server_hostname=client.server_hostname,
                timeout=timeout,
            )
    except RedirectedError as redirected:
        return redirected.response
    return response


@contextmanager
def _translated(request: Request, access: Endpoint) -> Iterator[None]:
    try:
        yield
    except (
        aiohttp.ClientConnectorError,
        aiohttp.ConnectionTimeoutError,
        aiohttp.ClientHttpProxyError,
        aiohttp.InvalidURL,
    ) as error:
        raise UnreachableError(
            f"cannot connect to {access.server} ({access.origin}): {_reason(error)}"
        ) from error
    except TimeoutError as error:
        raise OutcomeUnknownError(
            f"{access.server}: no answer within {request.timeout_seconds:g} s"
        ) from error
    except (aiohttp.ClientError, OSError) as error:
        raise OutcomeUnknownError(f"{access.server}: no answer: {_reason(error)}") from error


def _connect_timeout(left: float) -> aiohttp.ClientTimeout:
    """Let the connect time out well before the deadline: then the write was certainly not sent."""
    return aiohttp.ClientTimeout(total=None, connect=min(CONNECT_TIMEOUT_SECONDS, left / 2))


def _url(access: Endpoint, request: Request) -> URL:
    query = f"?{urlencode(request.query)}" if request.query else ""
    return URL(f"{access.server}{request.path}{query}", encoded=True)


def _request_headers(access: Endpoint, request: Request) -> dict[str, str]:
    headers = {
        "Accept": request.accept,
        # Unpacking a compressed list would cost the loop more than the network gains.
        "Accept-Encoding": "identity",
        "User-Agent": "gpuruntime",
    }
    if request.body is not None:
        headers["Content-Type"] = request.content_type
    if access.authorization:
        headers["Authorization"] = access.authorization
    return headers


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
