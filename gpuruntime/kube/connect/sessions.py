"""The sessions of kubernetes_asyncio's REST client: one for requests and one for streams."""

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

PARALLEL_REQUESTS = 100
UNLIMITED = 0
LARGEST_READ = 2**21  # a watch event may be as large as etcd's limit of 1.5 MiB


class Sessions:
    """Made with one set of certificates; once retired they close with the end of their last use.

    Streams have connections of their own, so that a burst of writes never delays an event.
    """

    def __init__(self, access: Endpoint) -> None:
        with _certificate_files(access) as configuration:
            self._requests = _client(access, configuration, PARALLEL_REQUESTS)
            self._streams = _client(access, configuration, UNLIMITED)
        self._uses = 0
        self._is_retired = False

    @property
    def requests(self) -> aiohttp.ClientSession:
        session: aiohttp.ClientSession = self._requests.pool_manager
        return session

    @property
    def streams(self) -> aiohttp.ClientSession:
        session: aiohttp.ClientSession = self._streams.pool_manager
        return session

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
        """What uses them ends undisturbed; nothing new may begin."""
        self._is_retired = True
        if not self._uses:
            await self.close()

    async def close(self) -> None:
        await self._requests.close()
        await self._streams.close()


def _client(access: Endpoint, configuration: Any, connections: int) -> Any:
    """The library's session trusts the environment, which costs each request two threads' hops.

    It also refuses our Authorization where ~/.netrc knows the host; so its connector, with the
    certificates, gets a session of ours.
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
        middlewares=(_send_once,),
        read_bufsize=LARGEST_READ,
        trust_env=False,
    )
    return client


async def _send_once(request: ClientRequest, send: ClientHandlerType) -> ClientResponse:
    """Keeps aiohttp from repeating a PUT or DELETE whose connection died.

    The first may have been done, and the repeated one would then be refused by its own guard.
    """
    try:
        return await send(request)
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        if request.method == "GET":
            raise
        raise aiohttp.ClientConnectionError(f"the connection died: {error}") from error


@contextmanager
def _certificate_files(access: Endpoint) -> Iterator[Any]:
    """The ssl module reads certificates from files only; these are gone once it has."""
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
    """In a Pod with a read-only file system nothing may be written, and nothing need be."""
    yield ""
