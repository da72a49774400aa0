"""Start of a claimed unit: the number of writes and reconciles, and the objects at the end."""

import asyncio
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from gpuruntime.models.kinds.pools import STOCK_POOLS
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.network import SERVICES
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS
from tests.eventually import equals
from tests.faults import ANSWER_LOST, Fault, FaultyTransport, refused
from tests.rooms.operations.cluster import STOCK, replica
from tests.rooms.reconcilers.world import (
    World,
    living,
    managing,
    message_of,
    phase_of,
    quiet,
    until,
)

pytestmark = pytest.mark.looptime

PORTS: dict[str, Any] = {"template": {"ports": [{"name": "http", "port": 80}]}}
CONFLICT = refused(409, "Conflict")


async def seeded(world: World, count: int = 1, *, refill: str = "Never") -> None:
    world.add_pool(replicas=count, refill=refill)
    await until(lambda: world.pool().get("status", {}).get("available"), equals(count))
    await quiet(world)


def has_taken_over(world: World) -> bool:
    return bool(world.units) and phase_of(world.units[0]) == "Ready" and not world.stock_names


async def claimed(world: World) -> None:
    async with replica(world) as api:
        assert (await api.create(name="demo", **PORTS)).startswith("20")


async def test_a_claim_costs_few_writes_and_few_reconciles() -> None:
    world = World()
    async with living(world), managing(world) as manager:
        await seeded(world)
        manager.transport.sent.clear()
        manager.meter.sums.clear()
        await claimed(world)
        await until(lambda: has_taken_over(world))
        await quiet(world)
        writes = [each for each in manager.transport.written() if "stockpools" not in each]
    reads = [
        each.path.rpartition("/")[2].partition("-")[0]
        for each in manager.transport.sent
        if each.method == "GET" and "watch" not in dict(each.query)
    ]
    # The tombstone of the operation and the stock unit.
    assert reads == ["operation", "p"]
    told = [each for each in writes if each.endswith("/events")]
    assert len(told) == 1
    writes.remove(told[0])
    verbs = [each.split()[0] for each in writes]
    assert verbs == ["POST", "POST", "POST", "PATCH", "DELETE", "PATCH"]
    assert manager.reconciles("unit") + manager.reconciles("stock") <= 6


async def test_a_slow_start_says_where_it_is_with_one_write_for_each_stage() -> None:
    world = World()
    container = {
        "name": "runtime",
        "image": "big:1",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
    }
    waiting = {"waiting": {"reason": "ContainerCreating"}}
    loading = {"running": {"startedAt": "2025-01-01T00:01:00Z"}}
    async with living(world), managing(world):
        world.troubles["a"] = {**container, "state": waiting}
        world.add_unit("a", **PORTS)
        await until(lambda: phase_of(world.unit("a")))
        await until(lambda: message_of(world.unit("a")), lambda words: "preparing" in words)
        status = world.unit("a")["status"]
        assert status["nodeName"] == "node-1"
        assert "scheduledAt" in status["timeline"]
        before = world.made(GPU_UNITS)["PATCH"]
        await asyncio.sleep(60)
        assert world.made(GPU_UNITS)["PATCH"] == before
        world.troubles["a"] = {**container, "state": loading}
        await until(lambda: message_of(world.unit("a")), lambda words: "port 80 " in words)
        assert world.unit("a")["status"]["timeline"]["startedAt"].startswith("2025-01-01T00:01:00")
        await asyncio.sleep(60)
        assert world.made(GPU_UNITS)["PATCH"] == before + 1
        del world.troubles["a"]
        await until(lambda: phase_of(world.unit("a")), equals("Ready"))


async def test_a_claimed_unit_ends_with_these_objects() -> None:
    world = World()
    async with living(world), managing(world):
        await seeded(world)
        await claimed(world)
        await until(lambda: has_taken_over(world))
        await quiet(world)
    status = world.unit("demo")["status"]
    assert status["nodeName"] == "node-1"
    assert status["accessURL"] == "http://unit-demo.runtime-instance.svc.cluster.local:80"
    moments = status["timeline"]
    assert moments["acceptedAt"] <= moments["claimedAt"] <= moments["readyAt"]
    assert {"createdAt", "scheduledAt", "startedAt"} < moments.keys()
    assert world.end_state() == {
        "units": {"demo": "Ready"},
        "stock": {},
        "pools": [{"phase": "Empty", "seeded": 1, "consumed": 1, "claimed": 0}],
        "deployments": ["unit-demo"],
        "services": ["unit-demo"],
        "policies": ["unit-demo"],
        "tombstones": [],
    }


async def test_a_new_leader_writes_nothing_when_nothing_has_changed() -> None:
    world = World()
    async with living(world):
        async with managing(world):
            await seeded(world)
            await claimed(world)
            await until(lambda: has_taken_over(world))
            await quiet(world)
        before = len(world.ledger.done)
        async with managing(world) as manager:
            await quiet(world, seconds=30.0)
    assert world.ledger.done[before:] == []
    assert manager.transport.written() == []


@attrs.frozen
class Undisturbed:
    """The objects after a run without faults, and how often each kind was created and deleted."""

    state: dict[str, Any]
    counts: dict[str, dict[str, int]]


def outcome_of(world: World) -> Undisturbed:
    kinds = (GPU_UNITS, STOCK_POOLS, DEPLOYMENTS, SERVICES)
    counts = {
        each.kind: {verb: world.made(each)[verb] for verb in ("POST", "DELETE")} for each in kinds
    }
    return Undisturbed(state=world.end_state(), counts=counts)


def is_all_ready(world: World) -> bool:
    stock = world.objects(GPU_UNITS, STOCK)
    return len(stock) == 2 and all(phase_of(each) == "Ready" for each in stock)


async def serve_one(world: World) -> None:
    """Create a pool of two units, and have one of them claimed and taken over."""
    if not world.objects(STOCK_POOLS, STOCK):
        world.add_pool(replicas=2, refill="Never")
    await until(lambda: is_all_ready(world) or bool(world.units))
    if not world.units:
        await claimed(world)
    await until(lambda: phase_of(world.units[0]), equals("Ready"), seconds=900)
    counts = ("seeded", "consumed", "available")
    wanted = {"seeded": 2, "consumed": 1, "available": 1}
    await until(
        lambda: {name: world.pool().get("status", {}).get(name) for name in counts},
        equals(wanted),
        seconds=900,
    )
    await quiet(world)


async def run_with(number: int, fault: Callable[[FaultyTransport], Fault]) -> Undisturbed | None:
    """Run with a fault at that write of the first manager; if it dies of it, start a second.

    Return None if the manager wrote less often than that.
    """
    world = World()
    transports: list[FaultyTransport] = []

    def prepare(transport: FaultyTransport) -> None:
        transports.append(transport)
        transport.on_write(number, fault(transport))

    async with living(world):
        async with managing(world, prepare=prepare), asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(serve_one(world))
            while not serving.done() and not transports[0]._is_cut:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            serving.cancel()
        if not transports[0]._rules[0].times:
            async with managing(world):
                await serve_one(world)
            return outcome_of(world)
    return None


def dies_before(transport: FaultyTransport) -> Fault:
    return Fault(is_unreachable=True, then=transport.cut)


def dies_after(transport: FaultyTransport) -> Fault:
    return Fault(then=transport.cut)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(lambda _: ANSWER_LOST, id="the answer is lost"),
        pytest.param(lambda _: CONFLICT, id="a conflict"),
        pytest.param(dies_before, id="the leader dies before"),
        pytest.param(dies_after, id="the leader dies after"),
    ],
)
async def test_a_fault_at_any_write_leads_to_the_same_end_creates_and_deletes(
    fault: Callable[[FaultyTransport], Fault],
) -> None:
    world = World()
    async with living(world), managing(world):
        await serve_one(world)
    expected = outcome_of(world)
    number = 0
    while outcome := await run_with(number, fault):
        assert outcome == expected, f"write {number}"
        number += 1
    assert number > 10
