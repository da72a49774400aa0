"""Pools on the embedded server: what they seed, keep, delete and leave behind."""

import asyncio
from operator import not_
from typing import Any

import pytest

from gpuruntime.models.kinds.pools import STOCK_POOLS
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS
from tests.eventually import equals
from tests.faults import Fault, FaultyTransport, landing_late
from tests.rooms.operations.cluster import STOCK, replica
from tests.rooms.reconcilers.world import (
    Manager,
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


def available(world: World, name: str = "p") -> int:
    count: int = world.pool(name).get("status", {}).get("available", 0)
    return count


def pools(world: World) -> list[str]:
    return world.names(STOCK_POOLS, STOCK)


def remembered(manager: Manager) -> dict[Key, float]:
    """Return when the manager last wrote the status of each pool."""
    (pools,) = (each for each in manager.reconcilers._controllers if each.name == "pool")
    reconciler = pools._reconcile.__self__  # type: ignore[attr-defined]  # it is a bound method
    told: dict[Key, float] = reconciler.observer.reported
    return told


def set_pool(world: World, name: str = "p", **spec: object) -> None:
    world.call("PATCH", STOCK_POOLS.path(namespace=STOCK, name=name), {"spec": spec})


async def test_a_recreated_never_pool_seeds_in_full_beside_stock_taken_earlier() -> None:
    world = World()
    async with living(world), managing(world), replica(world) as api:
        world.add_pool(replicas=2, refill="Never")
        await until(lambda: available(world), equals(2))
        for name in ("a", "b"):
            assert (await api.create(name, name=name)).startswith("201")
            await becomes(world, name, "Ready")
        await until(lambda: world.stock_names, not_)
        world.delete(STOCK_POOLS, STOCK, "p")
        await until(lambda: pools(world), not_)
        world.add_pool(replicas=2, refill="Never")
        await until(lambda: available(world), equals(2))
        assert world.stock_names == ["p-1", "p-2"]


async def test_a_never_pool_seeds_once_under_every_leader() -> None:
    world = World()
    async with living(world):
        async with managing(world), replica(world) as api:
            world.add_pool(replicas=2, refill="Never")
            await until(lambda: available(world), equals(2))
            assert (await api.create("a", name="a")).startswith("201")
            await until(lambda: len(world.stock_names), equals(1))
            world.delete(GPU_UNITS, STOCK, world.stock_names[0])
            await quiet(world)
        async with managing(world):
            await quiet(world, seconds=120.0)
    assert world.stock_names == []
    assert world.pool()["status"]["consumed"] == 2
    assert phase_of(world.pool()) == "Empty"
    assert world.made(GPU_UNITS)["POST"] == 2


async def test_a_refill_pool_replaces_claimed_stock_under_a_new_ordinal() -> None:
    world = World()
    async with living(world), managing(world), replica(world) as api:
        world.add_pool(replicas=2)
        await until(lambda: available(world), equals(2))
        assert (await api.create("a", name="a")).startswith("201")
        await becomes(world, "a", "Ready")
        await until(lambda: "p-3" in world.stock_names and available(world) == 2)
        await quiet(world)
        status = world.pool()["status"]
    assert (status["seeded"], status["consumed"], status["claimed"]) == (3, 1, 0)


async def test_a_lowered_pool_deletes_the_newest_unready_units_and_no_claimed_one() -> None:
    world = World()
    world.troubles["p-3"] = {
        "name": "runtime",
        "ready": False,
        "restartCount": 0,
        "image": "busybox",
        "imageID": "",
        "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no"}},
    }
    async with living(world), managing(world):
        world.add_pool(replicas=5)
        await until(lambda: available(world) == 4 and world.pool()["status"]["failed"] == 1)
        assert (phase_of(world.pool()), reason_of(world.pool())) == ("Failed", "StockFailed")
        assert "p-3" in message_of(world.pool())
        world.claim_by_hand("p-5", "nobody", operation="x")
        set_pool(world, replicas=3)
        await until(lambda: "p-3" not in world.stock_names)
        await asyncio.sleep(10)
        assert world.stock_names == ["p-1", "p-2", "p-4", "p-5"]
        set_pool(world, replicas=1)
        await until(lambda: len(world.stock_names), equals(2))
        assert world.stock_names == ["p-1", "p-5"]


async def test_a_deleted_pool_takes_its_unclaimed_stock_along() -> None:
    world = World()
    async with living(world), managing(world) as manager, replica(world) as api:
        world.add_pool(replicas=3, refill="Never")
        await until(lambda: available(world), equals(3))
        manager.transport.hold_watches()
        assert (await api.create("a", name="a")).startswith("201")
        (taken,) = [each["metadata"]["name"] for each in world.claimed]
        world.delete(STOCK_POOLS, STOCK, "p")
        manager.transport.release_watches()
        await until(lambda: pools(world), not_)
        await becomes(world, "a", "Ready")
        await until(lambda: world.stock_names, not_)
        assert world.unit("a")["metadata"]["annotations"]["runtime.lokiwager.io/source-stock"] == (
            f"{STOCK}/{taken}"
        )


async def test_a_create_that_lands_during_a_dissolution_uses_no_ordinal_twice() -> None:
    world = World()
    async with living(world), managing(world) as manager:
        manager.transport.on("POST", "gpuunits", landing_late(30.0))
        world.add_pool(refill="Never")
        await until(lambda: available(world), equals(1))
        world.delete(STOCK_POOLS, STOCK, "p")
        await asyncio.sleep(40)
        assert world.stock_names == ["p-1"]
        await until(lambda: pools(world), not_, seconds=30)
        await quiet(world, seconds=60)
        assert world.stock_names == []
        assert world.made(GPU_UNITS)["POST"] == 1


async def test_recorded_stock_of_a_deleted_pool_waits_for_no_create() -> None:
    world = World()
    async with living(world), managing(world) as manager:
        world.add_pool()
        await until(lambda: available(world), equals(1))
        manager.transport.on("POST", "gpuunits", landing_late(30.0))
        set_pool(world, replicas=2)
        await until(lambda: available(world), equals(2))
        world.delete(STOCK_POOLS, STOCK, "p")
        await until(lambda: world.stock_names, equals(["p-2"]), seconds=1)
        await until(lambda: pools(world), not_, seconds=90)
        assert world.stock_names == []


@pytest.mark.parametrize(
    "members", [{"gpu": 2}, {"gpuProduct": "H100"}], ids=["more GPUs", "one product, not any"]
)
async def test_a_second_envelope_of_a_spec_name_seeds_nothing_until_the_first_is_deleted(
    members: dict[str, Any],
) -> None:
    world = World()
    async with living(world), managing(world):
        world.add_pool("old")
        await until(lambda: available(world, "old"), equals(1))
        world.add_pool("new", **members)
        await until(lambda: reason_of(world.pool("new")), equals("SpecConflict"))
        assert (phase_of(world.pool("new")), world.stock_names) == ("Failed", ["old-1"])
        assert "pool old gives g1.1 another envelope" in message_of(world.pool("new"))
        world.delete(STOCK_POOLS, STOCK, "old")
        await until(lambda: available(world, "new"), equals(1), seconds=10)
        assert world.stock_names == ["new-1"]


async def test_a_refused_pool_does_not_refuse_others_with_the_envelope_in_force() -> None:
    world = World()
    async with living(world), managing(world):
        world.add_pool("old")
        await until(lambda: available(world, "old"), equals(1))
        world.add_pool("bad", gpu=2)
        await until(lambda: reason_of(world.pool("bad")), equals("SpecConflict"))
        await asyncio.sleep(1)
        world.add_pool("new")
        await until(lambda: available(world, "new"), equals(1))
        assert world.stock_names == ["new-1", "old-1"]
        world.delete(STOCK_POOLS, STOCK, "old")
        await until(lambda: world.stock_names, equals(["new-1"]))
        await asyncio.sleep(60)
        assert (world.stock_names, available(world, "new")) == (["new-1"], 1)


async def test_the_same_envelope_explicit_or_by_default_is_no_conflict() -> None:
    world = World()
    async with living(world), managing(world):
        world.add_pool("old")
        world.add_pool("new", cpu="1000m", memory="1024Mi")
        await until(lambda: available(world, "old") == available(world, "new") == 1)


async def test_a_deleted_pool_is_forgotten() -> None:
    world = World()
    async with living(world), managing(world) as manager:
        for name in ("a", "b"):
            world.add_pool(name)
        await until(lambda: available(world, "a") == available(world, "b") == 1)
        assert len(remembered(manager)) == 2
        for name in ("a", "b"):
            world.delete(STOCK_POOLS, STOCK, name)
        await until(lambda: pools(world), not_)
        await asyncio.sleep(1)
        assert not remembered(manager)


async def test_a_used_up_pool_is_kept_for_the_retention_and_then_deleted() -> None:
    world = World()
    async with living(world), managing(world, retention_seconds=60.0), replica(world) as api:
        world.add_pool(refill="Never")
        await until(lambda: available(world), equals(1))
        assert (await api.create("a", name="a")).startswith("201")
        await until(lambda: phase_of(world.pool()), equals("Empty"))
        await asyncio.sleep(50)
        assert pools(world) == ["p"]
        await until(lambda: pools(world), not_, seconds=30)
    assert phase_of(world.unit("a")) == "Ready"


async def test_a_bad_quantity_of_a_pool_is_reported_until_it_is_corrected() -> None:
    world = World()
    async with living(world), managing(world):
        world.add_pool(memory="not-a-quantity")
        await until(lambda: reason_of(world.pool()), equals("InvalidSpec"))
        assert message_of(world.pool()).startswith("spec.memory: ")
        assert world.stock_names == []
        set_pool(world, memory="2Gi")
        await until(lambda: available(world), equals(1), seconds=10)


async def test_stock_of_a_missing_pool_is_deleted_unless_it_is_claimed() -> None:
    world = World()
    async with living(world):
        async with managing(world):
            world.add_pool(replicas=2)
            await until(lambda: available(world), equals(2))
        world.claim_by_hand("p-2", "nobody", operation="x")
        path = STOCK_POOLS.path(namespace=STOCK, name="p")
        world.call("PATCH", path, {"metadata": {"finalizers": None}})
        world.delete(STOCK_POOLS, STOCK, "p")
        async with managing(world):
            await until(lambda: world.stock_names, equals(["p-2"]))
            # Its claim ends after the grace, and then it is deleted as well.
            await until(lambda: world.stock_names, not_)


async def test_a_taken_name_holds_up_its_ordinal_until_it_is_free() -> None:
    world = World()
    world.add_stock_unit("p-1", pool="")
    async with living(world), managing(world):
        world.add_pool(replicas=2, refill="Never")
        await until(lambda: reason_of(world.pool()), equals("StockSyncFailed"))
        assert "stock runtime-stock/p-1 is not of this pool" in message_of(world.pool())
        await until(lambda: available(world), equals(1))
        world.delete(GPU_UNITS, STOCK, "p-1")
        await until(lambda: available(world), equals(2), seconds=120)
        assert world.stock_names == ["p-1", "p-2"]


async def test_a_used_up_pool_that_is_raised_before_its_end_lives_on() -> None:
    world = World()
    async with living(world), managing(world, retention_seconds=60.0), replica(world) as api:
        world.add_pool(refill="Never")
        await until(lambda: available(world), equals(1))
        assert (await api.create("a", name="a")).startswith("201")
        await until(lambda: phase_of(world.pool()), equals("Empty"))
        await asyncio.sleep(30)
        set_pool(world, replicas=2)
        await until(lambda: available(world), equals(1))
        await asyncio.sleep(60)
        assert world.stock_names == ["p-2"]
        assert "used-up" not in repr(world.pool()["metadata"]["annotations"])


async def test_a_claim_before_the_deletion_keeps_its_unit() -> None:
    world = World()
    async with living(world), managing(world) as manager:
        world.add_pool(replicas=3)
        await until(lambda: available(world), equals(3))
        manager.transport.on(
            "DELETE",
            "gpuunits/p-3",
            Fault(before_seconds=1.0),
        )
        set_pool(world, replicas=2)
        await until(lambda: "DELETE" in repr(manager.transport.written()))
        world.claim_by_hand("p-3", "nobody", operation="x")
        await asyncio.sleep(30)
        assert world.stock_names == ["p-1", "p-2", "p-3"]
        await quiet(world)
        assert world.pool()["status"]["claimed"] == 1


async def test_stock_with_an_invalid_spec_reports_it() -> None:
    world = World()
    world.add_stock_unit("odd", memory="much", is_ready=False)
    async with living(world), managing(world):
        await until(lambda: reason_of(world.stock("odd")), equals("InvalidSpec"))
        assert phase_of(world.stock("odd")) == "Failed"


async def test_stock_that_no_node_accepts_is_told_by_its_pool_within_ten_seconds() -> None:
    world = World()
    words = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
    world.unschedulable = {"p-2": words, "p-3": words}
    async with living(world), managing(world):
        world.add_pool(replicas=3)
        told = lambda: reason_of(world.pool())  # noqa: E731
        await until(told, equals("StockUnschedulable"), seconds=10.0)
        assert phase_of(world.pool()) == "Progressing"
        text = message_of(world.pool())
        assert text == f"2 of 3 units have no node, p-2: unit-p-2-1: {words}"
        assert f"StockUnschedulable: {text}" in world.told("p", STOCK)
        # A node was added.
        world.unschedulable = {}
        await until(told, equals("StockReady"))


async def test_a_pool_without_our_finalizer_is_deleted_at_once() -> None:
    world = World()
    async with living(world), managing(world):
        world.add_pool()
        await until(lambda: available(world), equals(1))
        path = STOCK_POOLS.path(namespace=STOCK, name="p")
        world.call("PATCH", path, {"metadata": {"finalizers": ["example.test/theirs"]}})
        world.delete(STOCK_POOLS, STOCK, "p")
        await quiet(world, seconds=10.0)
        assert world.pool()["metadata"]["finalizers"] == ["example.test/theirs"]


def ready(world: World) -> list[str]:
    return [name for name in world.stock_names if phase_of(world.stock(name)) == "Ready"]


async def test_claimable_stock_is_reported_before_the_rest_is_created() -> None:
    world = World()

    def slowly(transport: FaultyTransport) -> None:
        transport.on("POST", "deployments", Fault(before_seconds=1.0), times=100)

    async with living(world), managing(world, prepare=slowly):
        world.add_pool(replicas=100)
        await until(lambda: ready(world))
        assert world.made(DEPLOYMENTS)["POST"] < 50
