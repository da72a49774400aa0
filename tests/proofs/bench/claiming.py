"""Many callers claim a stock through two replicas until it is empty.

    python -m tests.proofs.bench.claiming [managed]

The baseline is the same pairs of writes, sent without the product over as many connections, in
turns with the claims. With `managed` a manager works at the same time. The product's writes are
read from the API server's audit log.
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

from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.claim_timing import REQUEST_LIFE_SECONDS
from gpuruntime.models.kinds.units import GPU_UNITS, GPUUnit
from gpuruntime.operations.options import Namespaces
from gpuruntime.reconcilers.stock.pool_observation import REPORT_SECONDS
from tests.eventually import eventually
from tests.options import configured
from tests.proofs.bench.connections import Address, Connection, connections
from tests.proofs.bench.product import (
    address_of,
    health,
    prepared_plane,
    replica,
    role,
    writes_of_product,
)
from tests.proofs.bench.rows import Row
from tests.proofs.bench.unit_requests import Pair, add_stock, ask, pair, spread
from tests.proofs.real_cluster.controlplane import ControlPlane

PLACE = configured(Namespaces)
CALLERS = 64
ROUNDS = 3
STOCK = 500
WRITERS = 16
# Each claim leads to a Deployment and a Pod, which cost the machine far more than the claim.
MANAGED_STOCK = 150
SPEC = "g1"
# One stock unit for each replica, which it claims before the measured ones.
MEETING_STOCK = 2
MEETING_SPEC = "meeting"
SEEDING = "/api/v1/operator/stock-units"
SETTLING_SECONDS = 120.0
# These writes do not depend on the number of claims alone, so they are counted separately.
POOLS = "stockpools"
EVENTS = "events"


@attrs.frozen(kw_only=True)
class ClaimRun:
    """The claims that emptied one stock, and how long they took."""

    claims: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.claims / self.seconds


async def claim_until_empty(replicas: list[Address], spec_name: str) -> ClaimRun:
    """Let all callers claim until each has been refused for lack of stock."""
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
    return ClaimRun(claims=len(won), seconds=max(won))


async def write_pairs(plane: Address, stock: list[GPUUnit]) -> ClaimRun:
    pairs = [pair(PLACE, each, f"unit-{each.metadata.name}") for each in stock]

    async def write(connection: Connection, each: Pair) -> None:
        await each.write(connection)

    async with connections(plane, CALLERS) as opened:
        begun = time.perf_counter()
        await spread(opened, pairs, write)
        return ClaimRun(claims=len(stock), seconds=time.perf_counter() - begun)


async def measured(plane: ControlPlane) -> tuple[list[ClaimRun], list[ClaimRun]]:
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
            bare.append(await write_pairs(address, taken))
            ours.append(await claim_until_empty([first, second], f"own{number}"))
            assert ours[-1].claims == STOCK, ours[-1]
    return bare, ours


def twice_named(plane: ControlPlane) -> int:
    """Return the number of stock units that more than one unit names as its source."""
    units = plane.request("GET", GPU_UNITS.path(namespace=PLACE.instance))["items"]
    sources = Counter(each["metadata"]["annotations"][labels.SOURCE_STOCK_UID] for each in units)
    return sum(count > 1 for count in sources.values())


def rows() -> Iterator[Row]:
    with prepared_plane(PLACE) as plane:
        bare, ours = asyncio.run(measured(plane))
        yield from _rows(bare, ours, writes_of_product(plane))
        yield Row(
            name="claims: stock units named by two units",
            value=twice_named(plane),
            unit="",
            at_most=0,
        )


def conflicts_in(asked: list[dict[str, Any]]) -> int:
    return sum(event["responseStatus"]["code"] == 409 for event in asked)


def _rows(
    bare: list[ClaimRun], ours: list[ClaimRun], asked: list[dict[str, Any]]
) -> Iterator[Row]:
    claims = sum(each.claims for each in ours)
    yield Row(
        name="claims: the same writes without the product",
        value=median(each.rate for each in bare),
        unit="1/s",
    )
    name = f"claims until empty, {CALLERS} callers, 2 replicas"
    yield Row(name=name, value=median(each.rate for each in ours), unit="1/s")
    ratio = median(own.rate / pair.rate for own, pair in zip(ours, bare, strict=True))
    yield Row(
        name="claims until empty ÷ the same writes without the product",
        value=ratio,
        unit="ratio",
        at_least=0.75,
    )
    conflicts = conflicts_in(asked) / claims
    yield Row(name="conflicts per claim", value=conflicts, unit="", at_most=0.05)
    yield Row(name="writes per claim, without a manager", value=len(asked) / claims, unit="")


@attrs.frozen(kw_only=True)
class Managed:
    claim_run: ClaimRun
    # Until every unit was Ready and all claimed stock was deleted.
    settled_seconds: float
    # The product's writes, by resource, and how many of them were refused with 409.
    writes: Counter[str]
    conflicts: int

    def a_claim(self, writes: int) -> float:
        return writes / self.claim_run.claims


async def measured_managed(plane: ControlPlane) -> Managed:
    async def is_settled() -> bool:
        claimed = MEETING_STOCK + MANAGED_STOCK
        is_ready = _ready(await _units(plane, PLACE.instance)) == claimed
        return is_ready and await is_stocked(plane, 0)

    async with (
        role(plane.kubeconfig, "manager", PLACE),
        replica(plane.kubeconfig, PLACE) as first,
        replica(plane.kubeconfig, PLACE) as second,
    ):
        stock = MEETING_STOCK + MANAGED_STOCK
        await seed(first, SPEC, MANAGED_STOCK)
        await seed(first, MEETING_SPEC, MEETING_STOCK)
        await eventually(lambda: is_stocked(plane, stock), within_seconds=SETTLING_SECONDS)
        for each in (first, second):
            await health(each, "readyStockCount", least=stock)
        await leaders_first_minute()
        await meet(first, second)
        await eventually(lambda: is_stocked(plane, MANAGED_STOCK), within_seconds=SETTLING_SECONDS)
        await asyncio.sleep(2 * REPORT_SECONDS)  # the pool of the meeting has told of it
        known = len(writes_of_product(plane))
        begun = time.perf_counter()
        claim_run = await claim_until_empty([first, second], SPEC)
        await eventually(is_settled, within_seconds=SETTLING_SECONDS)
        seconds = time.perf_counter() - begun
    written = writes_of_product(plane, known=known)
    return Managed(
        claim_run=claim_run,
        settled_seconds=seconds,
        writes=Counter(str(event["objectRef"]["resource"]) for event in written),
        conflicts=conflicts_in(written),
    )


async def meet(*replicas: Address) -> None:
    """Let each replica claim, so that they divide the stock as replicas of a busy fleet do."""
    for number, address in enumerate(replicas):
        async with connections(address, 1) as (caller,):
            status = await ask(caller, f"{MEETING_SPEC}-{number}", MEETING_SPEC)
        assert status == 201, status


async def leaders_first_minute() -> None:
    """Wait until a new leader records ordinals and so deletes the stock of started units."""
    await asyncio.sleep(REQUEST_LIFE_SECONDS)


async def seed(api: Address, spec_name: str, count: int) -> None:
    body: JsonObject = {
        "operationID": f"seed-{spec_name}",
        "specName": spec_name,
        "memory": "1Gi",
        "gpu": 1,
        "replicas": count,
    }
    async with connections(api, 1) as (operator,):
        answer = await operator.send("POST", SEEDING, codec.encode(body))
    assert answer.status == 202, answer.body


async def is_stocked(plane: ControlPlane, count: int) -> bool:
    """Return whether there are as many stock units, and all are ready."""
    stock = await _units(plane, PLACE.stock)
    return len(stock) == _ready(stock) == count


async def _units(plane: ControlPlane, namespace: str) -> list[dict[str, Any]]:
    listed = await asyncio.to_thread(plane.request, "GET", GPU_UNITS.path(namespace=namespace))
    return list(listed["items"])


def _ready(units: list[dict[str, Any]]) -> int:
    return sum(unit.get("status", {}).get("phase") == "Ready" for unit in units)


def managed_rows() -> Iterator[Row]:
    with prepared_plane(PLACE) as plane:
        managed = asyncio.run(measured_managed(plane))
    name = f"claims until empty, {CALLERS} callers, with a manager after its first minute"
    yield Row(name=name, value=managed.claim_run.rate, unit="1/s")
    rate = MANAGED_STOCK / managed.settled_seconds
    name = "the same, units per second from POST to Ready and stock deleted"
    yield Row(name=name, value=rate, unit="1/s")
    apart = {kind: managed.writes[kind] for kind in (POOLS, EVENTS)}
    written = managed.writes.total() - sum(apart.values())
    name = "writes per claim, from POST to Ready and stock deleted"
    yield Row(name=name, value=managed.a_claim(written), unit="", at_most=8)
    name = "conflicts per claim, with a manager"
    yield Row(name=name, value=managed.a_claim(managed.conflicts), unit="", at_most=0.05)
    name = "Events per claim"
    yield Row(name=name, value=managed.a_claim(apart[EVENTS]), unit="", at_most=1)
    seconds = apart[POOLS] / managed.settled_seconds
    yield Row(name="writes of the pool's status per second", value=seconds, unit="1/s", at_most=1)


if __name__ == "__main__":
    for row in managed_rows() if sys.argv[1:] == ["managed"] else rows():
        sys.stdout.write(f"{row}\n")
        sys.stdout.flush()
