"""The product as it is installed: a real control plane with its CRDs, and roles as processes."""

import asyncio
import json
import ssl
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import attrs
import yaml

from gpuruntime.models.definitions.crds import crds
from gpuruntime.operations.options import Namespaces
from tests.eventually import eventually
from tests.proofs.bench.connections import Address, connections
from tests.proofs.real_cluster import binaries
from tests.proofs.real_cluster.controlplane import ControlPlane, control_plane

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
START_SECONDS = 30.0
POLL_SECONDS = 0.1
WRITES = frozenset({"create", "update", "patch", "delete"})
# The start of the User-Agent header of the product's own requests.
USER_AGENT = "gpuruntime"


@contextmanager
def prepared_plane(*places: Namespaces) -> Iterator[ControlPlane]:
    """Start a control plane with all that the manifests install; exit if binaries are missing."""
    try:
        folder = binaries.find_or_build()
    except binaries.MissingBinariesError as error:
        sys.exit(str(error))
    with tempfile.TemporaryDirectory() as logs, control_plane(folder, Path(logs)) as plane:
        for definition in crds():
            plane.request("POST", DEFINITIONS, definition)
        for name in {name for place in places for name in attrs.astuple(place)}:
            plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        for name, value, policy in (
            ("gpuruntime-stock", -10, "Never"),
            ("gpuruntime-instance", 0, "PreemptLowerPriority"),
        ):
            body = {"metadata": {"name": name}, "value": value, "preemptionPolicy": policy}
            plane.request("POST", PRIORITIES, body)
        yield plane


def address_of(plane: ControlPlane) -> Address:
    tls = ssl.create_default_context(cafile=plane.certificate)
    return Address(plane.url, plane.token, tls)


def writes_of_product(plane: ControlPlane, *, known: int = 0) -> list[dict[str, Any]]:
    """Return the product's writes from the API server's audit log, without the first `known`."""
    return [
        event
        for event in plane.audit_events()
        if event["verb"] in WRITES and event.get("userAgent", "").startswith(USER_AGENT)
    ][known:]


@attrs.frozen(kw_only=True)
class RunningRole:
    process_id: int
    log: Path


@asynccontextmanager
async def role(kubeconfig: Path, name: str, place: Namespaces) -> AsyncIterator[RunningRole]:
    """Run a role as a process until the block ends."""
    with tempfile.TemporaryDirectory() as folder:
        config, log = Path(folder) / "config.yaml", Path(folder) / "log"
        config.write_text(yaml.safe_dump(_settings(kubeconfig, place)))
        with log.open("wb") as output:
            command = (sys.executable, "-m", "gpuruntime", name, "--config", str(config))
            process = await asyncio.create_subprocess_exec(*command, stderr=output)
        try:
            yield RunningRole(process_id=process.pid, log=log)
        finally:
            process.terminate()
            await process.wait()


@asynccontextmanager
async def replica(kubeconfig: Path, place: Namespaces) -> AsyncIterator[Address]:
    """Run an api until the block ends; yield its address once its caches are synced."""
    async with role(kubeconfig, "api", place) as api:
        yield await synced_address(api)


async def synced_address(api: RunningRole) -> Address:
    """Return the api's address once its caches are synced."""
    address = Address(await eventually(lambda: _address_in(api.log), within_seconds=START_SECONDS))
    await health(address, "cacheSynced", least=True)
    return address


async def health(address: Address, fact: str, *, least: int) -> None:
    """Wait until this field of the api's health is at least `least`."""
    async with connections(address, 1) as (connection,):
        await eventually(
            lambda: connection.send("GET", "/api/v1/health"),
            lambda answer: answer.document["data"][fact] >= least,
            within_seconds=START_SECONDS,
        )


def _address_in(log: Path) -> str:
    """Return the address on which the role listens, or nothing if its log does not have it yet."""
    for line in log.read_text().splitlines():
        said = json.loads(line) if line.startswith("{") else {}
        if said.get("event") == "listening":
            return str(said["address"])
    return ""


def _settings(kubeconfig: Path, place: Namespaces) -> dict[str, Any]:
    return {
        "listen": "127.0.0.1:0",
        "operations": {"listen": "127.0.0.1:0"},
        "kubernetes": {"mode": "required", "kubeconfig": str(kubeconfig)},
        "namespaces": attrs.asdict(place),
    }
