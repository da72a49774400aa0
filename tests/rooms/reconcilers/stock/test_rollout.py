"""A pool's new image or template reaches its unclaimed stock in place."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gpuruntime.models.kinds.pools import STOCK_POOLS
from gpuruntime.models.kinds.units import GPU_UNITS
from tests.eventually import equals
from tests.faults import ANSWER_LOST, UNREACHABLE, Fault, refused, slow
from tests.rooms.operations.cluster import STOCK, Document, replica
from tests.rooms.reconcilers.world import (
    World,
    becomes,
    living,
    managing,
    message_of,
    phase_of,
    quiet,
    reason_of,
    until,
)

pytestmark = pytest.mark.looptime

PULL_FAILS: Document = {
    "name": "runtime",
    "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}},
}


def told(world: World, name: str = "p") -> Document:
    status: Document = world.pool(name).get("status", {})
    return status


def images(world: World) -> list[str]:
    return [each["spec"].get("image", "") for each in world.objects(GPU_UNITS, STOCK)]


def running(world: World) -> list[str]:
    return [
        world.deployment(name, STOCK)["spec"]["template"]["spec"]["containers"][0]["image"]
        for name in world.stock_names
    ]


def set_pool(world: World, **spec: Any) -> None:
    world.call("PATCH", STOCK_POOLS.path(namespace=STOCK, name="p"), {"spec": spec})


def unready(world: World) -> int:
    """Return how many units of the pool cannot be claimed, as their own status says."""
    stock = world.objects(GPU_UNITS, STOCK)
    return sum(
        phase_of(each) != "Ready"
        or each["status"]["observedGeneration"] != each["metadata"]["generation"]
        for each in stock
    )


@asynccontextmanager
async def most_unready(world: World) -> AsyncIterator[list[int]]:
    """Record how many units cannot be claimed, every 50 ms of the block."""
    seen: list[int] = []

    async def watch() -> None:
        while True:
            seen.append(unready(world))
            await asyncio.sleep(0.05)

    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(watch())
        yield seen
        watching.cancel()


@pytest.mark.parametrize("refill", ["Always", "Never"])
async def test_a_new_image_reaches_all_stock_under_its_old_names(refill: str) -> None:
    world = World()
    async with living(world), managing(world):
        world.add_pool(replicas=8, refill=refill, image="old")
        await until(lambda: told(world).get("available"), equals(8))
        names, made = world.stock_names, world.made(GPU_UNITS)["POST"]
        async with most_unready(world) as seen:
            set_pool(world, image="new", template={"args": ["serve"]})
            await until(lambda: told(world).get("stale"), bool)
            await until(
                lambda: (phase_of(world.pool()), told(world)["stale"]), equals(("Ready", 0))
            )
        assert set(images(world)) == set(running(world)) == {"new"}
        assert (world.stock_names, world.made(GPU_UNITS)["POST"]) == (names, made)
        assert told(world)["available"] == 8
        # One canary first, then a quarter of the eight at most.
        away = [each for each in seen if each]
        assert (away[0], max(away)) == (1, 2)
        done = len(world.ledger.done)
        await quiet(world, seconds=60)
        assert len(world.ledger.done) == done


async def test_a_removed_member_of_the_template_is_removed_from_the_stock() -> None:
    world = World()
    async with living(world), managing(world):
        world.add_pool(replicas=1, image="old", template={"command": ["a"], "args": ["b"]})
        await until(lambda: told(world).get("available"), equals(1))
        set_pool(world, image=None, template={"command": None})
        await until(lambda: world.stock("p-1")["spec"].get("image", ""), equals(""))
        await until(lambda: phase_of(world.pool()), equals("Ready"))
        assert world.stock("p-1")["spec"]["template"].get("command", []) == []
        assert world.stock("p-1")["spec"]["template"]["args"] == ["b"]


@pytest.mark.parametrize("refill", ["Always", "Never"])
async def test_stock_that_failed_for_a_bad_image_heals_with_its_pool(refill: str) -> None:
    world = World()
    for ordinal in range(1, 5):
        world.troubles[f"p-{ordinal}"] = PULL_FAILS
    async with living(world), managing(world):
        world.add_pool(replicas=4, refill=refill, image="bad")
        await until(lambda: told(world).get("failed"), equals(4))
        world.troubles.clear()
        set_pool(world, image="good")
        await until(lambda: images(world), equals(["good"] * 4), seconds=2)
        await until(lambda: phase_of(world.pool()), equals("Ready"))
        assert (told(world)["available"], told(world)["seeded"]) == (4, 4)


async def test_a_bad_image_costs_one_unit_and_the_pool_says_so_until_it_is_mended() -> None:
    world = World()
    async with living(world), managing(world):
        world.add_pool(replicas=8, image="old")
        await until(lambda: told(world).get("available"), equals(8))
        world.troubles["p-1"] = PULL_FAILS
        set_pool(world, image="bad")
        await until(lambda: reason_of(world.pool()), equals("StockFailed"))
        await quiet(world, seconds=60)
        assert sorted(images(world)) == ["bad"] + ["old"] * 7
        assert (told(world)["available"], told(world)["stale"]) == (7, 7)
        assert "1 units cannot start, p-1" in message_of(world.pool())
        assert message_of(world.pool()).endswith("7 units have an earlier image or template")
        world.troubles.clear()
        set_pool(world, image="good")
        await until(lambda: (phase_of(world.pool()), told(world)["stale"]), equals(("Ready", 0)))
        assert set(images(world)) == {"good"}


async def test_claimed_stock_keeps_what_it_runs() -> None:
    world = World()
    async with living(world), managing(world):
        world.add_pool(replicas=2, refill="Never", image="old")
        await until(lambda: told(world).get("available"), equals(2))
        world.claim_by_hand("p-1", "nobody", operation="op")
        set_pool(world, image="new")
        await until(lambda: world.stock("p-2")["spec"]["image"], equals("new"))
        await until(lambda: told(world).get("available"), equals(1))
        assert world.stock("p-1")["spec"]["image"] == "old"
        assert told(world)["stale"] == 0
        # The grace frees the claim, for which no unit came, and then the stock follows.
        await until(lambda: world.stock("p-1")["spec"]["image"], equals("new"))
        await until(lambda: told(world).get("available"), equals(2))


async def test_a_claim_that_lands_before_the_change_keeps_the_stock_as_it_was() -> None:
    world = World()
    async with living(world), managing(world) as manager:
        world.add_pool(replicas=1, refill="Never", image="old")
        await until(lambda: told(world).get("available"), equals(1))
        manager.transport.on("PATCH", "/gpuunits/p-1$", slow(before=2.0))
        set_pool(world, image="new")
        await asyncio.sleep(1)
        world.claim_by_hand("p-1", "nobody", operation="op")
        await asyncio.sleep(10)
        assert "PATCH" in [each.split()[0] for each in manager.transport.written()]
        assert world.stock("p-1")["spec"]["image"] == "old"


@pytest.mark.parametrize("fault", [ANSWER_LOST, UNREACHABLE, refused(409, "Conflict")])
async def test_a_change_that_fails_is_repeated(fault: Fault) -> None:
    world = World()
    async with living(world), managing(world) as manager:
        world.add_pool(replicas=2, image="old")
        await until(lambda: told(world).get("available"), equals(2))
        manager.transport.on("PATCH", "/gpuunits/p-[12]$", fault, times=2)
        set_pool(world, image="new")
        await until(lambda: images(world), equals(["new", "new"]))


async def test_a_refused_change_is_told_by_the_pool_and_retried_slowly() -> None:
    world = World()
    async with living(world), managing(world) as manager:
        world.add_pool(replicas=2, image="old")
        await until(lambda: told(world).get("available"), equals(2))
        manager.transport.on("PATCH", "/gpuunits/p-[12]$", refused(403, "Forbidden"), times=3)
        set_pool(world, image="new")
        await until(lambda: reason_of(world.pool()), equals("StockSyncFailed"))
        writes = len(manager.transport.written())
        await asyncio.sleep(10)
        assert len(manager.transport.written()) == writes
        await until(lambda: images(world), equals(["new", "new"]))
        await until(lambda: phase_of(world.pool()), equals("Ready"))


async def test_stock_cannot_be_claimed_between_its_change_and_its_next_readiness() -> None:
    world = World()
    async with living(world):
        async with managing(world):
            world.add_pool(replicas=1, image="old")
            await until(lambda: told(world).get("available"), equals(1))
        world.call(
            "PATCH", GPU_UNITS.path(namespace=STOCK, name="p-1"), {"spec": {"image": "new"}}
        )
        assert phase_of(world.stock("p-1")) == "Ready"
        async with replica(world) as api:
            assert (await api.create("a", name="a")) == "insufficient_capacity"
            async with managing(world):
                set_pool(world, image="new")
                await until(lambda: unready(world), equals(0))
                assert (await api.create("b", name="b")).startswith("201")
                await becomes(world, "b", "Ready")


async def test_stock_that_was_changed_by_hand_gets_the_pools_spec_back() -> None:
    world = World()
    async with living(world), managing(world):
        world.add_pool(replicas=2, image="old")
        await until(lambda: told(world).get("available"), equals(2))
        world.call("PATCH", GPU_UNITS.path(namespace=STOCK, name="p-1"), {"spec": {"image": "x"}})
        await until(lambda: images(world), equals(["old", "old"]))
        await until(lambda: phase_of(world.pool()), equals("Ready"))
