"""Our HTTP transport with the kubeconfig, certificates and tokens of a real server."""

import json
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gpuruntime.kube.client import Client
from gpuruntime.kube.connect.sources import Kubeconfig
from gpuruntime.kube.errors import UnauthorizedError, UnreachableError
from gpuruntime.kube.http import HttpTransport, connect
from gpuruntime.kube.transport import Request
from gpuruntime.models.kubernetes.metadata import Key
from tests.proofs.conformance.calls import Watch
from tests.proofs.conformance.objects import CONFIG_MAPS, NAMESPACES, config_map
from tests.proofs.real_cluster.controlplane import ControlPlane
from tests.proofs.real_cluster.fixtures import started

pytestmark = pytest.mark.cluster


async def opened(kubeconfig: Path) -> HttpTransport:
    return await connect(Kubeconfig(str(kubeconfig)), now=lambda: datetime.now(UTC))


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[ControlPlane]:
    """Start a cluster of its own: the shared one's controllers recover late from an outage."""
    yield from started(tmp_path_factory, pytestconfig)


@pytest_asyncio.fixture
async def transport(cluster: ControlPlane) -> AsyncIterator[HttpTransport]:
    made = await opened(cluster.kubeconfig)
    yield made
    await made.close()


def spoilt(cluster: ControlPlane, folder: Path, section: str, **members: Any) -> Path:
    """Write the cluster's kubeconfig with changed members in its only cluster or user."""
    kubeconfig = json.loads(cluster.kubeconfig.read_text())
    kubeconfig[f"{section}s"][0][section] |= members
    path = folder / "kubeconfig"
    path.write_text(json.dumps(kubeconfig))
    return path


async def test_objects_are_written_and_read(transport: HttpTransport, unique: str) -> None:
    client = Client(transport)
    made = await client.create(CONFIG_MAPS, config_map(unique), namespace="default")
    assert await client.get(CONFIG_MAPS, Key("default", unique)) == made
    await client.delete(CONFIG_MAPS, made.metadata.key, uid=made.metadata.uid)


async def test_a_watch_is_received_event_by_event(transport: HttpTransport, unique: str) -> None:
    client = Client(transport)
    path = CONFIG_MAPS.path(namespace="default")
    query = (("watch", "true"), ("fieldSelector", f"metadata.name={unique}"))
    async with transport.stream(Request(method="GET", path=path, query=query)) as stream:
        assert stream.status == 200
        await client.create(CONFIG_MAPS, config_map(unique), namespace="default")
        assert await Watch(stream.chunks()).summaries(1) == [("ADDED", unique)]


async def test_a_stream_breaks_when_the_server_is_killed(
    transport: HttpTransport, cluster: ControlPlane
) -> None:
    request = Request(
        method="GET", path=CONFIG_MAPS.path(namespace="default"), query=(("watch", "true"),)
    )
    async with transport.stream(request) as stream:
        cluster.kill("kube-apiserver")
        with pytest.raises(UnreachableError):
            async for _ in stream.chunks():
                pass
        with pytest.raises(UnreachableError, match="cannot connect"):
            await Client(transport).get(NAMESPACES, Key("", "default"))
    cluster.start("kube-apiserver")
    cluster.wait_until_ready()
    await Client(transport).get(NAMESPACES, Key("", "default"))


async def test_an_unknown_token_is_unauthorized(cluster: ControlPlane, tmp_path: Path) -> None:
    transport = await opened(spoilt(cluster, tmp_path, "user", token="another"))
    with pytest.raises(UnauthorizedError):
        await Client(transport).get(NAMESPACES, Key("", "default"))
    await transport.close()


async def test_a_certificate_of_an_unknown_authority_is_not_trusted(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    path = spoilt(cluster, tmp_path, "cluster")
    kubeconfig = json.loads(path.read_text())
    del kubeconfig["clusters"][0]["cluster"]["certificate-authority"]
    path.write_text(json.dumps(kubeconfig))
    transport = await opened(path)
    with pytest.raises(UnreachableError, match="certificate"):
        await Client(transport).get(NAMESPACES, Key("", "default"))
    await transport.close()
