"""A real dufs over a folder, started like a storage's file server, with the API before it."""

import asyncio
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

from gpuruntime.models.kinds.file_servers import ACCESSOR_PORT, ANY_ADDRESS
from gpuruntime.models.kinds.storages import Accessor, GPUStorage, GPUStorageSpec
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.reconcilers.options import UnitOptions
from gpuruntime.reconcilers.storage.children import MOUNT_PATH, Placing, accessor_deployment
from tests.eventually import eventually
from tests.options import configured
from tests.proofs.real_cluster.binaries import MissingBinariesError
from tests.proofs.real_file_server import binaries
from tests.rooms.api.files.upstream import add_storage
from tests.rooms.api.service import Service, service
from tests.rooms.operations.cluster import Cluster


@attrs.frozen
class Served:
    """A writable storage `models` and a read-only storage `fixed`, which share one folder."""

    api: Service
    folder: Path
    port: int
    fixed_port: int

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.api.client.port}"

    def url(self, path: str, storage: str = "models") -> str:
        return f"{self.address}/api/v1/gpu-storages/{storage}/files{path}"


@pytest.fixture(scope="session")
def dufs() -> Path:
    try:
        return binaries.find()
    except MissingBinariesError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture
async def served(dufs: Path, tmp_path: Path) -> AsyncIterator[Served]:
    folder = tmp_path / "volume"
    folder.mkdir()
    cluster = Cluster()
    with (
        serving(dufs, folder, "models", is_writable=True) as port,
        serving(dufs, folder, "fixed", is_writable=False) as fixed_port,
    ):
        for each in (port, fixed_port):
            await answering(each)
        async with service(cluster) as api:
            add_storage(api, cluster, port)
            add_storage(api, cluster, fixed_port, name="fixed", writable=False)
            yield Served(api, folder, port, fixed_port)


@contextmanager
def serving(
    dufs: Path, folder: Path, storage: str, *, is_writable: bool, address: str = "127.0.0.1"
) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = int(holder.getsockname()[1])
    outside = {MOUNT_PATH: str(folder), ANY_ADDRESS: address, str(ACCESSOR_PORT): str(port)}
    told = container_of(storage, is_writable=is_writable)["args"]
    argv = [str(dufs), *(outside.get(each, each) for each in told)]
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        yield port
    finally:
        process.kill()
        process.wait()


def container_of(storage: str, *, is_writable: bool) -> Any:
    """Return the container as the file server's Deployment has it."""
    accessor = Accessor(enabled=True, writable=is_writable)
    made = GPUStorage(
        metadata=ObjectMeta(name=storage, namespace="runtime-instance", uid="u"),
        spec=GPUStorageSpec(size="1Gi", accessor=accessor),
    )
    body: Any = accessor_deployment(made, configured(UnitOptions), Placing()).body
    return body["spec"]["template"]["spec"]["containers"][0]


async def answering(port: int, host: str = "127.0.0.1") -> None:
    _, writer = await eventually(
        lambda: asyncio.open_connection(host, port), despite=ConnectionRefusedError
    )
    writer.close()
