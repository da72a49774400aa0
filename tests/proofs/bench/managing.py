"""Claims while a manager works, until all is settled: `python -m tests.proofs.bench.managing`.

What the product wrote for them is read from the API server's audit log.
"""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import attrs

from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.operations.options import Namespaces
from tests.proofs.bench.claiming import CALLERS, Emptying, emptied
from tests.proofs.bench.connections import Address, connections
from tests.proofs.bench.product import (
    furnished_plane,
    health,
    replica,
    role,
    until,
    writes_of_product,
)
from tests.proofs.bench.rows import Row
from tests.proofs.real_cluster.controlplane import ControlPlane

PLACE = Namespaces()
# Each claim ends in a Deployment and its Pod, which takes the machine far longer than the claim.
STOCK = 150
SPEC = "g1"
SEEDING = "/api/v1/operator/stock-units"
SETTLING_SECONDS = 120.0
# Written as rarely as its pool allows, and counted apart.
POOLS = "stockpools"
EVENTS = "events"


@attrs.frozen(kw_only=True)
class Managed:
    emptying: Emptying
    # Until every unit was Ready and all claimed stock gone.
    settled_seconds: float
    # Of the product, by what was written.
    writes: Counter[str]

    def a_claim(self, writes: int) -> float:
        return writes / self.emptying.claims


async def measured(plane: ControlPlane) -> Managed:
    async def is_stocked() -> bool:
        return _ready(await _units(plane, PLACE.stock)) == STOCK

    async def is_settled() -> bool:
        is_gone = not await _units(plane, PLACE.stock)
        return is_gone and _ready(await _units(plane, PLACE.instance)) == STOCK

    async with (
        role(plane.kubeconfig, "manager", PLACE),
        replica(plane.kubeconfig, PLACE) as first,
        replica(plane.kubeconfig, PLACE) as second,
    ):
        await _seed(first)
        await until(is_stocked, seconds=SETTLING_SECONDS)
        for each in (first, second):
            await health(each, "readyStockCount", least=STOCK)
        known = len(writes_of_product(plane))
        begun = time.perf_counter()
        emptying = await emptied([first, second], SPEC)
        await until(is_settled, seconds=SETTLING_SECONDS)
        seconds = time.perf_counter() - begun
    written = writes_of_product(plane, known=known)
    kinds = Counter(str(event["objectRef"]["resource"]) for event in written)
    return Managed(emptying=emptying, settled_seconds=seconds, writes=kinds)


async def _seed(api: Address) -> None:
    body: JsonObject = {
        "operationID": "seed",
        "specName": SPEC,
        "memory": "1Gi",
        "gpu": 1,
        "replicas": STOCK,
    }
    async with connections(api, 1) as (operator,):
        answer = await operator.send("POST", SEEDING, codec.encode(body))
    assert answer.status == 202, answer.body


async def _units(plane: ControlPlane, namespace: str) -> list[dict[str, Any]]:
    listed = await asyncio.to_thread(plane.request, "GET", GPU_UNITS.path(namespace=namespace))
    return list(listed["items"])


def _ready(units: list[dict[str, Any]]) -> int:
    return sum(unit.get("status", {}).get("phase") == "Ready" for unit in units)


def rows() -> Iterator[Row]:
    with furnished_plane(PLACE) as plane:
        managed = asyncio.run(measured(plane))
    name = f"claims to empty, {CALLERS} callers, manager at work"
    yield Row(name=name, value=managed.emptying.rate, unit="1/s")
    rate = STOCK / managed.settled_seconds
    yield Row(name="POST to Ready and stock gone, all at once", value=rate, unit="1/s")
    apart = {kind: managed.writes[kind] for kind in (POOLS, EVENTS)}
    written = managed.writes.total() - sum(apart.values())
    name = "writes a claim, POST to Ready and stock gone"
    yield Row(name=name, value=managed.a_claim(written), unit="", at_most=8)
    name = "Events a claim beside them"
    yield Row(name=name, value=managed.a_claim(apart[EVENTS]), unit="", at_most=1)
    seconds = apart[POOLS] / managed.settled_seconds
    yield Row(name="writes of the pool's status", value=seconds, unit="1/s", at_most=1)


if __name__ == "__main__":
    for row in rows():
        sys.stdout.write(f"{row}\n")
        sys.stdout.flush()
