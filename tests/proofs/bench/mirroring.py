"""Memory of an api and of a manager that mirror 10,000 units with their children.

    python -m tests.proofs.bench.mirroring

Each role is a process of its own in front of a real control plane, whose objects have
managedFields; its controllers are killed, so that no Pods are created. The memory of the same
roles without units is subtracted. A first manager creates the children and is replaced, because
only a fresh one keeps no more than its mirrors.
"""

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from gpuruntime.models.encoding import codec
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.network import NETWORK_POLICIES, SERVICES
from gpuruntime.models.kubernetes.resources import Resource
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS
from tests.eventually import eventually
from tests.proofs.bench.connections import Connection, connections
from tests.proofs.bench.listing import EXISTING_UNITS, PLACE, unit
from tests.proofs.bench.product import (
    RunningRole,
    address_of,
    prepared_plane,
    role,
    synced_address,
)
from tests.proofs.bench.rows import Row
from tests.proofs.bench.sync import resident_bytes
from tests.proofs.bench.unit_requests import spread
from tests.proofs.real_cluster.controlplane import ControlPlane

WRITERS = 16
LIMIT = 500
CHILDREN: tuple[Resource[Any], ...] = (DEPLOYMENTS, SERVICES, NETWORK_POLICIES)
SETTLING_SECONDS = 900.0
# A role is at rest if it used less than this share of a core for this long.
REST_SECONDS = 5.0
REST_SHARE = 0.05


@attrs.frozen(kw_only=True)
class Resident:
    """The resident bytes of both roles."""

    api: int
    manager: int


@attrs.frozen(kw_only=True)
class MemoryRun:
    """Both roles without units and with all, and the bytes on the wire of what they mirror."""

    without_units: Resident
    with_units: Resident
    unit_bytes: int
    child_bytes: int


def processor_seconds(process_id: int) -> float:
    stat = Path(f"/proc/{process_id}/stat").read_text(encoding="ascii")
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def is_at_rest(running: RunningRole) -> bool:
    before = processor_seconds(running.process_id)
    await asyncio.sleep(REST_SECONDS)
    return processor_seconds(running.process_id) - before < REST_SHARE * REST_SECONDS


async def rest(running: RunningRole) -> None:
    await eventually(lambda: is_at_rest(running), within_seconds=SETTLING_SECONDS)


async def resident(plane: ControlPlane) -> Resident:
    async with (
        role(plane.kubeconfig, "manager", PLACE) as manager,
        role(plane.kubeconfig, "api", PLACE) as api,
    ):
        await synced_address(api)
        await rest(manager)
        await rest(api)
        return Resident(
            api=resident_bytes(api.process_id), manager=resident_bytes(manager.process_id)
        )


async def add_units(opened: list[Connection]) -> None:
    """Create units as the api does, but without stock."""
    path = GPU_UNITS.path(namespace=PLACE.instance)

    async def add(connection: Connection, number: int) -> None:
        body = codec.encode(unit(f"unit-{number:05}", is_claimed=False))
        answer = await connection.send("POST", path, body)
        assert answer.status == 201, answer.body

    await spread(opened, range(EXISTING_UNITS), add)


async def wire_bytes(connection: Connection, resource: Resource[Any]) -> int:
    """Return the bytes of all pages of a list."""
    read, token = 0, ""
    while True:
        path = resource.path(namespace=PLACE.instance)
        answer = await connection.send("GET", f"{path}?limit={LIMIT}&continue={token}")
        assert answer.status == 200, answer.body
        read += len(answer.body)
        token = answer.document["metadata"].get("continue", "")
        if not token:
            return read


async def measured(plane: ControlPlane) -> MemoryRun:
    plane.kill("kube-controller-manager")
    without_units = await resident(plane)
    async with connections(address_of(plane), WRITERS) as opened:
        await add_units(opened)
    async with role(plane.kubeconfig, "manager", PLACE) as first:
        await rest(first)
    with_units = await resident(plane)
    # The API server closes connections that were idle meanwhile.
    async with connections(address_of(plane), 1) as (connection,):
        return MemoryRun(
            without_units=without_units,
            with_units=with_units,
            unit_bytes=await wire_bytes(connection, GPU_UNITS),
            child_bytes=sum([await wire_bytes(connection, each) for each in CHILDREN]),
        )


def rows() -> Iterator[Row]:
    with prepared_plane(PLACE) as plane:
        run = asyncio.run(measured(plane))
    wire = {"api": run.unit_bytes, "manager": run.unit_bytes + run.child_bytes}
    for name, size in wire.items():
        least = getattr(run.without_units, name)
        yield Row(name=f"{name} without units: memory", value=least / 1e6, unit="MB")
        title = f"{name} with {EXISTING_UNITS:,} units: memory kept"
        kept = getattr(run.with_units, name) - least
        yield Row(name=title, value=kept / 1e6, unit="MB")
        share = f"{title} ÷ bytes on the wire"
        yield Row(name=share, value=kept / size, unit="ratio", at_most=1.5)


if __name__ == "__main__":
    for row in rows():
        sys.stdout.write(f"{row}\n")
        sys.stdout.flush()
