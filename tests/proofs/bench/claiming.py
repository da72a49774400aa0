"""Many callers empty a stock through two replicas: `python -m tests.proofs.bench.claiming`.

Beside them stand bare pairs of the same writes, from as many connections, in turns. What was
really asked of the API server is read from its audit log.
"""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from statistics import median
from typing import Any

import attrs

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.units import GPU_UNITS, GPUUnit
from gpuruntime.operations.options import Namespaces
from tests.proofs.bench.connections import Address, Connection, connections
from tests.proofs.bench.orders import Pair, add_stock, ask, pair, spread
from tests.proofs.bench.product import (
    address_of,
    furnished_plane,
    health,
    replica,
    writes_of_product,
)
from tests.proofs.bench.rows import Row
from tests.proofs.real_cluster.controlplane import ControlPlane

PLACE = Namespaces()
CALLERS = 64
ROUNDS = 3
STOCK = 500
WRITERS = 16


@attrs.frozen(kw_only=True)
class Emptying:
    """One stock that was claimed until nothing was left."""

    claims: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.claims / self.seconds


async def emptied(replicas: list[Address], spec_name: str) -> Emptying:
    """Callers go on until they are told that there is nothing left."""
    won: list[float] = []
    answers: Counter[int] = Counter()

    async def call(connection: Connection, caller: int) -> None:
        for number in range(STOCK):
            status = await ask(connection, f"{spec_name}-{caller}-{number}", spec_name)
            answers[status] += 1
            if status != 201:
                return
            won.append(time.perf_counter() - begun)

    async with AsyncExitStack() as stack:
        opened = [
            each
            for address in replicas
            for each in await stack.enter_async_context(connections(address, CALLERS // 2))
        ]
        begun = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for caller, connection in enumerate(opened):
                tasks.create_task(call(connection, caller))
    assert answers == {201: len(won), 409: CALLERS}, answers
    return Emptying(claims=len(won), seconds=max(won))


async def paired(plane: Address, stock: list[GPUUnit]) -> Emptying:
    pairs = [pair(PLACE, each, f"unit-{each.metadata.name}") for each in stock]

    async def write(connection: Connection, each: Pair) -> None:
        await each.write(connection)

    async with connections(plane, CALLERS) as opened:
        begun = time.perf_counter()
        await spread(opened, pairs, write)
        return Emptying(claims=len(stock), seconds=time.perf_counter() - begun)


async def measured(plane: ControlPlane) -> tuple[list[Emptying], list[Emptying]]:
    bare, ours = [], []
    address = address_of(plane)
    async with (
        replica(plane.kubeconfig, PLACE) as first,
        replica(plane.kubeconfig, PLACE) as second,
    ):
        for number in range(ROUNDS):
            async with connections(address, WRITERS) as writers:
                taken = await add_stock(writers, PLACE, f"bare{number}", STOCK)
                await add_stock(writers, PLACE, f"own{number}", STOCK)
            for each in (first, second):
                await health(each, "readyStockCount", least=2 * STOCK)
            bare.append(await paired(address, taken))
            ours.append(await emptied([first, second], f"own{number}"))
            assert ours[-1].claims == STOCK, ours[-1]
    return bare, ours


def twice_named(plane: ControlPlane) -> int:
    """How many stock units are the source of more than one unit."""
    units = plane.request("GET", GPU_UNITS.path(namespace=PLACE.instance))["items"]
    sources = Counter(each["metadata"]["annotations"][labels.SOURCE_STOCK_UID] for each in units)
    return sum(count > 1 for count in sources.values())


def rows() -> Iterator[Row]:
    with furnished_plane(PLACE) as plane:
        bare, ours = asyncio.run(measured(plane))
        yield from _rows(bare, ours, writes_of_product(plane))
        yield Row(name="claims: stock named twice", value=twice_named(plane), unit="", at_most=0)


def _rows(
    bare: list[Emptying], ours: list[Emptying], asked: list[dict[str, Any]]
) -> Iterator[Row]:
    claims = sum(each.claims for each in ours)
    yield Row(name="claims: bare pairs", value=median(each.rate for each in bare), unit="1/s")
    name = f"claims to empty, {CALLERS} callers, 2 replicas"
    yield Row(name=name, value=median(each.rate for each in ours), unit="1/s")
    ratio = median(own.rate / pair.rate for own, pair in zip(ours, bare, strict=True))
    yield Row(name="claims to empty ÷ bare pairs", value=ratio, unit="ratio", at_least=0.5)
    conflicts = sum(event["responseStatus"]["code"] == 409 for event in asked) / claims
    yield Row(name="conflicts a claim", value=conflicts, unit="", at_most=0.05)
    yield Row(name="writes a claim, manager idle", value=len(asked) / claims, unit="")


if __name__ == "__main__":
    for row in rows():
        sys.stdout.write(f"{row}\n")
        sys.stdout.flush()
