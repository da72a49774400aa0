"""Exec and port-forward through our transports, on the embedded server and on the real one."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
import pytest_asyncio

from gpuruntime.embedded.apiserver.http_listener import serve
from gpuruntime.embedded.cluster import ClusterOptions, EmbeddedCluster
from gpuruntime.embedded.processes.programs import Program
from gpuruntime.kube.client import Client
from gpuruntime.kube.connect.sources import Kubeconfig
from gpuruntime.kube.http import connect
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.pods import PODS
from gpuruntime.roles.dev.dev import kubeconfig_of
from tests.eventually import eventually
from tests.proofs.conformance.servers import QUICK, now
from tests.proofs.conformance.stream_cases import (
    ANYWHERE,
    CONTAINER,
    ECHO,
    PORT,
    WITH_A_KUBELET,
    Case,
    Scene,
    name_of,
)
from tests.proofs.real_cluster.kwok_streams import (
    StreamingCluster,
    is_listening,
    started_with_streams,
)

IMAGE = "example/echo:1"
START_SECONDS = 30.0


@pytest.fixture(scope="module")
def real_cluster(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[StreamingCluster]:
    yield from started_with_streams(tmp_path_factory, pytestconfig)


@asynccontextmanager
async def through(kubeconfig: Path) -> AsyncIterator[Client]:
    transport = await connect(Kubeconfig(str(kubeconfig)), now=lambda: datetime.now(UTC))
    try:
        yield Client(transport)
    finally:
        await transport.close()


@asynccontextmanager
async def embedded_cluster() -> AsyncIterator[EmbeddedCluster]:
    python = Program(name="python", path=sys.executable)
    options = ClusterOptions(pace=QUICK, programs={IMAGE: python, "python": python})
    cluster = EmbeddedCluster(now=now, options=options)
    running = asyncio.create_task(cluster.run(), name="cluster")
    try:
        await cluster.ready.wait()
        yield cluster
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


@asynccontextmanager
async def over_http(folder: Path) -> AsyncIterator[Client]:
    async with embedded_cluster() as cluster, serve(cluster.server) as url:
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(json.dumps(kubeconfig_of(url)))
        async with through(kubeconfig) as client:
            yield client


@asynccontextmanager
async def in_process(_: Path) -> AsyncIterator[Client]:
    async with embedded_cluster() as cluster:
        yield Client(cluster.transport)


EMBEDDED = {"in-process": in_process, "http": over_http}


@pytest_asyncio.fixture(params=[*EMBEDDED])
async def embedded(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Scene]:
    async with EMBEDDED[request.param](tmp_path) as client:
        yield await scene(client, "echo")


@pytest_asyncio.fixture
async def real(real_cluster: StreamingCluster, unique: str) -> AsyncIterator[Scene]:
    command = (sys.executable, "-c", ECHO, str(real_cluster.port))
    echo = await asyncio.create_subprocess_exec(*command)
    try:
        async with through(real_cluster.plane.kubeconfig) as client:
            await eventually(lambda: is_listening(real_cluster.port))
            yield await scene(client, unique)
    finally:
        echo.kill()
        await echo.wait()


async def scene(client: Client, name: str) -> Scene:
    """Create a Pod that echoes, and one that no node may have."""
    container: JsonObject = {
        "name": CONTAINER,
        "image": IMAGE,
        "command": ["python", "-c", ECHO, str(PORT)],
        "ports": [{"containerPort": PORT}],
        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
    }
    waiting = f"{name}-waiting"
    for each, selector in ((name, {}), (waiting, {"node": "none"})):
        spec: JsonObject = {"containers": [container], "nodeSelector": dict(selector)}
        body: JsonObject = {"metadata": {"name": each}, "spec": spec}
        await client.create(PODS, body, namespace="default")
    key = Key("default", name)
    await eventually(
        lambda: client.get(PODS, key), lambda pod: pod.is_ready, within_seconds=START_SECONDS
    )
    return Scene(client, key, Key("default", waiting))


@pytest.mark.parametrize("case", [*ANYWHERE, *WITH_A_KUBELET], ids=name_of)
async def test_on_the_embedded_server(embedded: Scene, case: Case) -> None:
    await case(embedded)


@pytest.mark.cluster
@pytest.mark.parametrize("case", ANYWHERE, ids=name_of)
async def test_on_the_real_server(real: Scene, case: Case) -> None:
    await case(real)
