"""Requests for units, and the API server writes that a claim leads to, as ready-made bytes."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from typing import Any, TypeVar

import attrs

from gpuruntime.kube.transport import MERGE_PATCH
from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.provenance import claim_marks
from gpuruntime.models.kinds.units import GPU_UNITS, GPUUnit
from gpuruntime.operations.objects import active_unit, unit_order
from gpuruntime.operations.options import Namespaces
from gpuruntime.operations.requests import parse_create_unit
from tests.proofs.bench.connections import Answer, Connection

ItemT = TypeVar("ItemT")

UNITS = "/api/v1/gpu-units"
ATTEMPT = "0123456789abcdef.0123456789abcdef"
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
READY = {
    "type": "Ready",
    "status": "True",
    "reason": "DeploymentReady",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


def order(operation: str, spec_name: str) -> JsonObject:
    return {
        "operationID": operation,
        "name": operation,
        "specName": spec_name,
        "image": "python:3.12",
        "access": {"primaryPort": "http", "scheme": "http"},
        "template": {
            "command": ["python"],
            "args": ["-m", "http.server", "8080"],
            "ports": [{"name": "http", "port": 8080}],
        },
    }


async def ask(connection: Connection, operation: str, spec_name: str) -> int:
    """Send one POST for a unit and return the status of its answer."""
    body = codec.encode(order(operation, spec_name))
    return (await connection.send("POST", UNITS, body)).status


@attrs.frozen(kw_only=True, slots=True)
class Pair:
    """The two writes of one claim, with exactly the bodies that the product sends."""

    stock: str
    marks: bytes
    units: str
    unit: bytes

    async def write(self, connection: Connection) -> Answer:
        """Send both writes, and return the answer with the unit."""
        marked = await connection.send("PATCH", self.stock, self.marks, MERGE_PATCH)
        assert marked.status == 200, marked.body
        made = await connection.send("POST", self.units, self.unit)
        assert made.status == 201, made.body
        return made


def pair(place: Namespaces, stock: GPUUnit, operation: str) -> Pair:
    request = parse_create_unit(order(operation, stock.spec.specName), place)
    accepted = unit_order(request, place.instance, MOMENT)
    marks: Any = claim_marks(
        claimant=accepted.key,
        attempt=ATTEMPT,
        operation_id=operation,
        request_hash=accepted.request_hash,
        claimed_at=MOMENT,
    )
    annotations = {**stock.metadata.annotations, **marks["metadata"]["annotations"]}
    claimed = attrs.evolve(stock, metadata=attrs.evolve(stock.metadata, annotations=annotations))
    marks["metadata"]["resourceVersion"] = stock.metadata.resourceVersion
    return Pair(
        stock=GPU_UNITS.path(namespace=place.stock, name=stock.metadata.name),
        marks=codec.encode(marks),
        units=GPU_UNITS.path(namespace=place.instance),
        unit=codec.encode(active_unit(accepted, claimed, {})),
    )


async def add_stock(
    opened: list[Connection], place: Namespaces, spec_name: str, count: int
) -> list[GPUUnit]:
    """Create stock that is Ready without a manager, because a claim reads only the status."""
    made: list[GPUUnit] = []

    async def add(connection: Connection, number: int) -> None:
        name = f"{spec_name}-{number}"
        await _create(connection, place.stock, name, spec_name)
        path = GPU_UNITS.path(namespace=place.stock, name=name, subresource="status")
        status = codec.encode({"status": {"conditions": [READY]}})
        answer = await connection.send("PATCH", path, status, MERGE_PATCH)
        made.append(codec.decode(answer.body, GPUUnit))

    await spread(opened, range(count), add)
    return made


async def add_units(opened: list[Connection], place: Namespaces, count: int) -> None:
    """Create units that are never changed."""

    async def add(connection: Connection, number: int) -> None:
        await _create(connection, place.instance, f"there-{number:05}", "there")

    await spread(opened, range(count), add)


async def _create(connection: Connection, namespace: str, name: str, spec_name: str) -> None:
    body: JsonObject = {
        "apiVersion": GPU_UNITS.api_version,
        "kind": GPU_UNITS.kind,
        "metadata": {"name": name, "labels": {labels.SPEC: spec_name}},
        "spec": {"specName": spec_name, "memory": "1Gi", "gpu": 1},
    }
    path = GPU_UNITS.path(namespace=namespace)
    answer = await connection.send("POST", path, codec.encode(body))
    assert answer.status == 201, answer.body


async def spread(
    opened: list[Connection],
    items: Iterable[ItemT],
    work: Callable[[Connection, ItemT], Awaitable[None]],
) -> None:
    """Apply `work` to all items; each connection takes the next item when its last one is done."""
    left = iter(items)

    async def take(connection: Connection) -> None:
        for item in left:
            await work(connection, item)

    async with asyncio.TaskGroup() as tasks:
        for connection in opened:
            tasks.create_task(take(connection))
