"""The connection of a role to its cluster: found, tried where it is required, and closed."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from gpuruntime.errors import ClusterRequiredError
from gpuruntime.kube.config import find_source
from gpuruntime.kube.errors import KubeError
from gpuruntime.kube.http import connect
from gpuruntime.kube.transport import Request, Transport
from gpuruntime.settings import KubernetesMode, KubernetesSettings

PROBE_SECONDS = 10.0


def wall_clock() -> datetime:
    return datetime.now(UTC)


@asynccontextmanager
async def cluster_transport(settings: KubernetesSettings) -> AsyncIterator[Transport]:
    """Raises ConfigurationError for what cannot work, ClusterRequiredError where it has to."""
    source = find_source(kubeconfig=settings.kubeconfig, context=settings.context)
    transport = await connect(source, now=wall_clock)
    try:
        if settings.mode is KubernetesMode.REQUIRED:
            await _demand(transport)
        yield transport
    finally:
        await transport.close()


async def _demand(transport: Transport) -> None:
    probe = Request(method="GET", path="/version", timeout_seconds=PROBE_SECONDS)
    try:
        response = await transport.request(probe)
    except KubeError as error:
        raise ClusterRequiredError(f"the cluster cannot be reached: {error}") from error
    if response.status >= 300:
        raise ClusterRequiredError(f"the cluster answers {response.status} to GET /version")
