"""A simple HTTP transport for tests, so that none of our own code hides a server's answer."""

import io
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import aiohttp
import attrs
import yarl

from gpuruntime.kube.transport import Request, Response, Socket


@attrs.frozen
class PlainStream:
    _response: aiohttp.ClientResponse

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> Mapping[str, str]:
        return _headers(self._response)

    async def chunks(self) -> AsyncIterator[bytes]:
        async for chunk in self._response.content.iter_any():
            yield chunk


class PlainTransport:
    def __init__(
        self, session: aiohttp.ClientSession, url: str, tls: ssl.SSLContext | None = None
    ) -> None:
        self._session = session
        self._url = url
        self._tls = tls or True

    async def request(self, request: Request) -> Response:
        async with self._send(request) as response:
            body = await response.read()
            return Response(status=response.status, headers=_headers(response), body=body)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[PlainStream]:
        async with self._send(request) as response:
            try:
                yield PlainStream(response)
            finally:
                _abort(response)

    def socket(
        self, request: Request, protocol: str
    ) -> AbstractAsyncContextManager[Socket | Response]:
        raise NotImplementedError(f"no test here opens a {protocol}: {request.path}")

    @asynccontextmanager
    async def _send(self, request: Request) -> AsyncIterator[aiohttp.ClientResponse]:
        headers = {"Accept": request.accept}
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        # aiohttp warns about bytes from 1 MiB on
        body = None if request.body is None else io.BytesIO(request.body)
        url = yarl.URL(self._url + request.path, encoded=True).with_query(request.query)
        async with self._session.request(
            request.method, url, data=body, headers=headers, ssl=self._tls
        ) as response:
            yield response


def _abort(response: aiohttp.ClientResponse) -> None:
    """Abort the connection: a TLS shutdown would outlive the test's event loop."""
    connection = response.connection
    if connection and connection.transport:
        connection.transport.abort()


def _headers(response: aiohttp.ClientResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}
