"""The scenarios run on each server; on the embedded ones in virtual time."""

import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from gpuruntime.kube.client import Client
from tests.proofs.conformance.objects import NAMESPACES, named
from tests.proofs.machinery import worlds
from tests.proofs.machinery.lines import Line
from tests.proofs.machinery.worlds import World
from tests.proofs.real_cluster.controlplane import ControlPlane
from tests.proofs.real_cluster.fixtures import started

_numbers = itertools.count(1)

SERVERS = [
    pytest.param("real", marks=pytest.mark.cluster),
    pytest.param("in-process", marks=pytest.mark.looptime),
    pytest.param("http", marks=pytest.mark.looptime),
]


@pytest.fixture(scope="package")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[ControlPlane]:
    """Start a separate control plane: the common one's controllers recover slowly."""
    yield from started(tmp_path_factory, pytestconfig)


@pytest_asyncio.fixture(params=SERVERS)
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    match request.param:
        case "real":
            opened = worlds.real(request.getfixturevalue("cluster"))
        case "http":
            opened = worlds.over_http(tmp_path)
        case _:
            opened = worlds.in_process()
    async with opened as one:
        yield one


@pytest_asyncio.fixture
async def line(world: World) -> Line:
    return await world.connect()


@pytest_asyncio.fixture
async def user(world: World) -> Client:
    """A client of another process, whose line is never cut."""
    return Client(await world.connect())


@pytest_asyncio.fixture
async def namespace(user: Client) -> str:
    """A namespace of this test; it stays on a server that outlives the test."""
    name = f"m{next(_numbers)}"
    await user.create(NAMESPACES, named(NAMESPACES, name))
    return name
