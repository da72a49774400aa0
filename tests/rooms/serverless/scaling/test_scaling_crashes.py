"""An activator that crashes at each write, stored or not: its successor reaches the end."""

import asyncio

import pytest

from tests.faults import Fault
from tests.rooms.operations.cluster import Cluster, Document
from tests.rooms.serverless.scaling.scaled import Scaled, scaled

pytestmark = pytest.mark.looptime

# More than the number of writes: a crash after the last one is an undisturbed run.
WRITES = range(10)
STOCK = 6


@pytest.mark.parametrize("lands", [True, False])
@pytest.mark.parametrize("number", WRITES)
async def test_scaling_out_reaches_its_end(number: int, lands: bool) -> None:
    cluster = Cluster()
    cluster.add_stock(STOCK)
    async with scaled(cluster) as made:
        death = Fault(is_answer_lost=lands, is_dropped=not lands, then=made.transport.cut)
        made.transport.on_write(number, death)
        made.declare(maxWorkers=2, minAvailableCount=2)
        await asyncio.sleep(5)
    async with scaled(cluster, seed=2) as next_one:
        await asyncio.sleep(60)
        assert next_one.workers == ["echo-w-1", "echo-w-2"]
        assert next_one.status()["desiredWorkers"] == 2
        strays = len(cluster.claimed) - 2
        assert 0 <= strays <= 2, "claims without a unit are left to the manager's grace"


@pytest.mark.parametrize("lands", [True, False])
@pytest.mark.parametrize("number", WRITES)
async def test_an_update_reaches_its_end_and_always_serves(number: int, lands: bool) -> None:
    cluster = Cluster()
    cluster.add_stock(STOCK)
    async with scaled(cluster) as made:
        made.declare(maxWorkers=1, minAvailableCount=1)
        await asyncio.sleep(1)
        await made.make_ready()
        death = Fault(is_answer_lost=lands, is_dropped=not lands, then=made.transport.cut)
        made.transport.on_write(number, death)
        made.change(image="v2")
        await update(made)
    async with scaled(cluster, seed=2) as next_one:
        await update(next_one)
        [last] = next_one.workers
        assert next_one.unit(last)["spec"]["image"] == "v2"
        assert next_one.status()["outdatedWorkers"] == 0
        strays = len(cluster.claimed) - 2
        assert 0 <= strays <= 1, "a claim without a unit is left to the manager's grace"


async def update(made: Scaled) -> None:
    """Let each worker start, or drain and end; a ready worker that stays is always left."""
    for _ in range(4):
        await asyncio.sleep(15)
        assert [
            name
            for name in made.workers
            if name not in made.draining and is_ready(made.unit(name))
        ]
        await made.make_ready(*(name for name in made.workers if name not in made.draining))
        await made.drained(*made.draining)


def is_ready(unit: Document) -> bool:
    conditions = unit.get("status", {}).get("conditions", ())
    return ("Ready", "True") in {(each["type"], each["status"]) for each in conditions}


@pytest.mark.parametrize("lands", [True, False])
@pytest.mark.parametrize("number", WRITES)
async def test_scaling_in_reaches_its_end(number: int, lands: bool) -> None:
    cluster = Cluster()
    cluster.add_stock(STOCK)
    async with scaled(cluster) as made:
        made.declare(maxWorkers=2, minAvailableCount=2)
        await asyncio.sleep(1)
        await made.make_ready()
        death = Fault(is_answer_lost=lands, is_dropped=not lands, then=made.transport.cut)
        made.transport.on_write(number, death)
        made.change(suspended=True)
        await asyncio.sleep(1)
        await made.drained("echo-w-1", "echo-w-2")
    async with scaled(cluster, seed=2) as next_one:
        await asyncio.sleep(5)
        await next_one.drained(*next_one.workers)
        await asyncio.sleep(60)
        assert next_one.workers == []
        assert next_one.status()["reason"] == "suspended"
        assert len(cluster.claimed) == 2
