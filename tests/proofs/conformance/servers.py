"""The servers under test: the real one, and the embedded one in process and over HTTP."""

import asyncio
import random
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import aiohttp

from gpuruntime.embedded.apiserver.http_listener import serve
from gpuruntime.embedded.apiserver.in_process_transport import InProcessTransport
from gpuruntime.embedded.apiserver.server import Server
from gpuruntime.embedded.cluster import ClusterOptions, EmbeddedCluster
from gpuruntime.embedded.nodes.failures import Pace
from gpuruntime.kube.transport import Transport
from tests.proofs.conformance.calls import Api
from tests.proofs.conformance.plain_transport import PlainTransport
from tests.proofs.real_cluster.controlplane import ControlPlane

# A real cluster's garbage collector notices a new kind within half a minute.
REAL_SECONDS = 60.0
EMBEDDED_SECONDS = 30.0  # it takes a fraction of a second unless the machine is busy
SEED = 7
QUICK = Pace(
    start_seconds=0.01, init_seconds=0.01, ready_seconds=0.01, run_seconds=0.05, stop_seconds=0.01
)


@asynccontextmanager
async def real(plane: ControlPlane) -> AsyncIterator[Api]:
    tls = ssl.create_default_context(cafile=plane.certificate)
    headers = {"Authorization": f"Bearer {plane.token}"}

    async def forget_history() -> None:
        await asyncio.to_thread(restart, plane, forgets=True)

    async with aiohttp.ClientSession(headers=headers) as session:
        transport = PlainTransport(session, plane.url, tls)
        yield Api(transport, forget_history, deadline_seconds=REAL_SECONDS)


def restart(plane: ControlPlane, *, forgets: bool) -> None:
    """Restart the API server, which loses its cache; if `forgets`, also compact etcd."""
    listed = plane.request("GET", "/api/v1/configmaps?limit=1")
    plane.kill("kube-apiserver")
    if forgets:
        plane.compact(int(listed["metadata"]["resourceVersion"]))
    plane.start("kube-apiserver")
    plane.wait_until_ready()


@asynccontextmanager
async def in_process(*, has_controllers: bool) -> AsyncIterator[Api]:
    server, cluster = embedded(has_controllers=has_controllers)
    yield api_of(server, cluster, InProcessTransport(server))


@asynccontextmanager
async def over_http(*, has_controllers: bool) -> AsyncIterator[Api]:
    server, cluster = embedded(has_controllers=has_controllers)
    async with serve(server) as url, aiohttp.ClientSession() as session:
        yield api_of(server, cluster, PlainTransport(session, url))


def embedded(*, has_controllers: bool) -> tuple[Server, EmbeddedCluster | None]:
    """Return a server without controllers if possible: it is created forty times faster."""
    if has_controllers:
        cluster = EmbeddedCluster(now=now, options=ClusterOptions(pace=QUICK))
        return cluster.server, cluster
    return Server(now=now, rng=random.Random(SEED)), None


def api_of(server: Server, cluster: EmbeddedCluster | None, transport: Transport) -> Api:
    async def forget_history() -> None:
        server.compact()

    return Api(transport, forget_history, deadline_seconds=EMBEDDED_SECONDS, embedded=cluster)


def now() -> datetime:
    return datetime.now(UTC)
