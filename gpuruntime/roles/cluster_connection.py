"""The connection of a role to its cluster: found, probed if required, and closed."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from gpuruntime.errors import ClusterRequiredError, ConfigurationError
from gpuruntime.kube.client import server_version
from gpuruntime.kube.connect.sources import find_source
from gpuruntime.kube.errors import KubeError, UnreachableError
from gpuruntime.kube.http import HttpTransport, connect
from gpuruntime.kube.transport import Request, Response, Socket, StreamResponse, Transport
from gpuruntime.settings.schema import KubernetesMode, KubernetesSettings

PROBE_SECONDS = 10.0


def wall_clock() -> datetime:
    return datetime.now(UTC)


@asynccontextmanager
async def cluster_transport(settings: KubernetesSettings) -> AsyncIterator[Transport]:
    """Yield the transport. Raise ConfigurationError if the configured access cannot work.

    If no access is configured and a cluster is not required, the transport keeps trying to find
    one.
    """
    if settings.mode is KubernetesMode.OFF:
        yield NoCluster()
        return
    may_come_later = settings.mode is KubernetesMode.AUTO and not settings.kubeconfig
    transport = LateTransport(settings)
    try:
        if not may_come_later:
            await transport.connect()
        if settings.mode is KubernetesMode.REQUIRED:
            await _demand(transport)
        yield transport
    finally:
        await transport.close()


class NoCluster:
    """A transport that refuses every request, for kubernetes.mode off."""

    async def request(self, _: Request) -> Response:
        raise UnreachableError("kubernetes is off here: start with kubernetes.mode auto")

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamResponse]:
        await self.request(request)
        yield  # type: ignore[misc]  # never reached: the line above always raises

    @asynccontextmanager
    async def socket(self, request: Request, _: str) -> AsyncIterator[Socket | Response]:
        yield await self.request(request)


class LateTransport:
    """A transport that connects at its first use, and tries at each use until it succeeds."""

    def __init__(self, settings: KubernetesSettings) -> None:
        self._settings = settings
        self._transport: HttpTransport | None = None

    async def connect(self) -> HttpTransport:
        if self._transport is not None:
            return self._transport
        source = find_source(kubeconfig=self._settings.kubeconfig, context=self._settings.context)
        return await self._adopt(await connect(source, now=wall_clock))

    async def request(self, request: Request) -> Response:
        transport = await self._connected()
        return await transport.request(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamResponse]:
        transport = await self._connected()
        async with transport.stream(request) as response:
            yield response

    @asynccontextmanager
    async def socket(self, request: Request, protocol: str) -> AsyncIterator[Socket | Response]:
        transport = await self._connected()
        async with transport.socket(request, protocol) as socket:
            yield socket

    async def close(self) -> None:
        if self._transport is not None:
            await self._transport.close()

    async def _adopt(self, made: HttpTransport) -> HttpTransport:
        """Keep one connection: another request may have connected meanwhile."""
        if self._transport is None:
            self._transport = made
        else:
            await made.close()
        return self._transport

    async def _connected(self) -> HttpTransport:
        try:
            return await self.connect()
        except ConfigurationError as error:
            raise UnreachableError(str(error)) from error


async def _demand(transport: Transport) -> None:
    try:
        await server_version(transport, timeout_seconds=PROBE_SECONDS)
    except KubeError as error:
        raise ClusterRequiredError(f"the cluster is required: {error}") from error
