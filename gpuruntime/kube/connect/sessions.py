"""The REST clients of kubernetes_asyncio: one for requests and one for streams."""

import copy
import ssl
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import ClientHandlerType, ClientRequest, ClientResponse
from kubernetes_asyncio.client.rest import RESTClientObject

from gpuruntime.errors import ConfigurationError
from gpuruntime.kube.connect.endpoint import Endpoint
from gpuruntime.kube.web_socket import WebSocket

PARALLEL_REQUESTS = 100
UNLIMITED = 0
# By default this is the lease duration minus the renew deadline. So a write that passed the fence
# starts before another process may lead.
CONNECT_TIMEOUT_SECONDS = 5.0
REDIRECTS = frozenset({301, 302, 303, 307, 308})
SWITCHING_PROTOCOLS = 101
UPGRADE = "Upgrade"
LARGEST_READ = 2**21  # a watch event may be as large as etcd's limit of 1.5 MiB


class RedirectedError(aiohttp.ClientError):
    """The server answered with a redirect, which is not followed."""

    def __init__(self, response: ClientResponse) -> None:
        super().__init__(f"redirected by {response.url}")
        self.response = response


class RefusedUpgradeError(aiohttp.ClientError):
    """The server answered a request for a WebSocket without opening one."""

    def __init__(self, response: ClientResponse) -> None:
        super().__init__(f"no WebSocket: {response.status}")
        self.response = response


class Sessions:
    """Two RESTClientObjects use one set of certificates.

    Once retired, they close when their last use ends. Streams have their own connections, so that
    a burst of writes never delays an event.
    """

    def __init__(self, access: Endpoint) -> None:
        with _certificate_files(access) as configuration:
            self.requests = _client(access, configuration, PARALLEL_REQUESTS)
            self.streams = _client(access, configuration, UNLIMITED)
        self._uses = 0
        self._is_retired = False

    @asynccontextmanager
    async def use(self) -> AsyncIterator[None]:
        self._uses += 1
        try:
            yield
        finally:
            self._uses -= 1
            if self._is_retired and not self._uses:
                await self.close()

    async def retire(self) -> None:
        """Let current uses end undisturbed; no new use may begin."""
        self._is_retired = True
        if not self._uses:
            await self.close()

    async def close(self) -> None:
        await self.requests.close()
        await self.streams.close()


def _client(access: Endpoint, configuration: Any, connections: int) -> Any:
    """Return the library's REST client, with a session of ours around its connector.

    The library's session trusts the environment. That costs each request two thread switches, and
    it rejects our Authorization header if ~/.netrc knows the host. It also repeats writes and
    follows redirects.
    """
    try:
        client = RESTClientObject(configuration, maxsize=connections)
    except (ssl.SSLError, OSError, ValueError) as error:
        raise ConfigurationError(
            f"{access.origin}: the certificates cannot be used: {error}: check "
            "certificate-authority, client-certificate and client-key"
        ) from error
    connector = client.pool_manager.connector
    client.pool_manager.detach()
    client.pool_manager = aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        middlewares=(_Exchange(),),
        read_bufsize=LARGEST_READ,
        # Only WebSockets use this: every other request has a timeout of its own.
        timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_TIMEOUT_SECONDS),
        trust_env=False,
        ws_response_class=WebSocket,
    )
    return client


class _Exchange:
    """A middleware that keeps aiohttp from following redirects, and from most of its repeats.

    aiohttp repeats a request once if its connection dies. A repeated write would fail its own
    guard if the first one succeeded. A read may be repeated once after each answer, in case its
    connection had been idle for too long. So a server that resets every connection is asked once.
    A request for a WebSocket is never repeated, because it may run a command.
    """

    def __init__(self) -> None:
        self._may_repeat = True

    async def __call__(self, request: ClientRequest, send: ClientHandlerType) -> ClientResponse:
        is_upgrade = UPGRADE in request.headers
        try:
            response = await send(request)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
            raise
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
            if request.method == "GET" and self._may_repeat and not is_upgrade:
                self._may_repeat = False
                raise
            raise aiohttp.ClientConnectionError(f"the connection died: {error}") from error
        self._may_repeat = True
        if response.status in REDIRECTS:
            raise RedirectedError(response)
        if is_upgrade and response.status != SWITCHING_PROTOCOLS:
            raise RefusedUpgradeError(response)
        return response


@contextmanager
def _certificate_files(access: Endpoint) -> Iterator[Any]:
    """Write inline certificates to files for the ssl module, and delete them afterwards."""
    configuration = copy.copy(access.configuration)
    with tempfile.TemporaryDirectory() if access.inline else _nowhere() as directory:
        for field, content in access.inline.items():
            file = Path(directory) / field
            file.touch(mode=0o600)
            file.write_bytes(content)
            setattr(configuration, field, str(file))
        yield configuration


@contextmanager
def _nowhere() -> Iterator[str]:
    """Write nothing, since nothing is inline: a Pod's file system may be read-only."""
    yield ""
