"""The servers under test: the real one, and the embedded one behind both of its fronts."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import aiohttp

from gpuruntime.kube.transport import Transport
from gpuruntime.local.cluster import EmbeddedCluster
from gpuruntime.local.http import serve
from tests.cluster.controlplane import ControlPlane
from tests.conformance.calls import Api
from tests.conformance.http import PlainTransport

# The garbage collector of a real cluster learns of a new kind within half a minute.
REAL_SECONDS = 60.0
EMBEDDED_SECONDS = 5.0


@asynccontextmanager
async def real(plane: ControlPlane) -> AsyncIterator[Api]:
    tls = ssl.create_default_context(cafile=plane.certificate)
    headers = {"Authorization": f"Bearer {plane.token}"}

    def forget() -> None:
        """What the API server keeps in memory goes with it, and etcd has nothing else."""
        listed = plane.request("GET", "/api/v1/configmaps?limit=1")
        plane.kill("kube-apiserver")
        plane.compact(int(listed["metadata"]["resourceVersion"]))
        plane.start("kube-apiserver")
        plane.wait_until_ready()

    async def forget_history() -> None:
        await asyncio.to_thread(forget)

    async with aiohttp.ClientSession(headers=headers) as session:
        transport = PlainTransport(session, plane.url, tls)
        yield Api(transport, forget_history, deadline_seconds=REAL_SECONDS)


@asynccontextmanager
async def in_process() -> AsyncIterator[Api]:
    cluster = embedded()
    yield api_of(cluster, cluster.transport)


@asynccontextmanager
async def over_http() -> AsyncIterator[Api]:
    cluster = embedded()
    async with serve(cluster.server) as url, aiohttp.ClientSession() as session:
        yield api_of(cluster, PlainTransport(session, url))


def embedded() -> EmbeddedCluster:
    return EmbeddedCluster(now=lambda: datetime.now(UTC))


def api_of(cluster: EmbeddedCluster, transport: Transport) -> Api:
    async def forget_history() -> None:
        cluster.server.compact()

    return Api(transport, forget_history, deadline_seconds=EMBEDDED_SECONDS, embedded=cluster)
