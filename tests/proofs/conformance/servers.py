"""The servers under test: the real one, and the embedded one behind both of its fronts."""

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

# The garbage collector of a real cluster learns of a new kind within half a minute.
REAL_SECONDS = 60.0
EMBEDDED_SECONDS = 30.0  # on a busy machine: it takes a fraction of one
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
    """The API server's memory goes with it; to forget, etcd then has nothing else either."""
    listed = plane.request("GET", "/api/v1/configmaps?limit=1")
    plane.kill("kube-apiserver")
    if forgets:
        plane.compact(int(listed["metadata"]["resourceVersion"]))
    plane.start("kube-apiserver")
    plane.wait_until_ready()


@asynccontextmanager
async def in_process(*, is_moving: bool) -> AsyncIterator[Api]:
    server, cluster = embedded(is_moving=is_moving)
    yield api_of(server, cluster, InProcessTransport(server))


@asynccontextmanager
async def over_http(*, is_moving: bool) -> AsyncIterator[Api]:
    server, cluster = embedded(is_moving=is_moving)
    async with serve(server) as url, aiohttp.ClientSession() as session:
        yield api_of(server, cluster, PlainTransport(session, url))


def embedded(*, is_moving: bool) -> tuple[Server, EmbeddedCluster | None]:
    """The server alone takes a fortieth of the time to make."""
    if is_moving:
        cluster = EmbeddedCluster(now=now, options=ClusterOptions(pace=QUICK))
        return cluster.server, cluster
    return Server(now=now, rng=random.Random(SEED)), None


def api_of(server: Server, cluster: EmbeddedCluster | None, transport: Transport) -> Api:
    async def forget_history() -> None:
        server.compact()

    return Api(transport, forget_history, deadline_seconds=EMBEDDED_SECONDS, embedded=cluster)


def now() -> datetime:
    return datetime.now(UTC)
