"""Claims that succeed, that come to nothing, or that another unit takes over."""

import asyncio
from operator import not_

import pytest

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.pods import PODS
from gpuruntime.reconcilers.unit.start_plan import Term
from tests.eventually import equals
from tests.rooms.operations.cluster import INSTANCE, STOCK, notes, replica
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


async def seeded(world: World, count: int = 1) -> None:
    world.add_pool(replicas=count, refill="Never")
    await until(lambda: world.pool().get("status", {}).get("available"), equals(count))
    await quiet(world)


def claim_of(world: World, stock: str) -> str:
    return notes(world.stock(stock)).get(labels.CLAIMED_BY, "")


async def test_a_claim_without_a_unit_is_freed_and_reported_after_its_grace() -> None:
    world = World()
    async with living(world), managing(world):
        await seeded(world)
        world.claim_by_hand("p-1", "nobody", operation="lost")
        await asyncio.sleep(88)
        assert claim_of(world, "p-1")
        await asyncio.sleep(4)
        assert not claim_of(world, "p-1")
        assert not notes(world.stock("p-1")).get(labels.OPERATION_ID)
        await quiet(world)
        assert world.pool()["status"]["available"] == 1
    assert world.told("p-1", STOCK) == [
        "ClaimFreed: no unit came of the claim for runtime-instance/nobody in 90 s: free again"
    ]


async def test_a_claim_without_a_claimant_is_freed_and_reported_as_such() -> None:
    world = World()
    async with living(world), managing(world):
        await seeded(world)
        world.claim_by_hand("p-1", "a/b", operation="lost")
        await until(lambda: claim_of(world, "p-1"), not_, seconds=95)
        await quiet(world)
    assert world.told("p-1", STOCK) == [
        "ClaimFreed: no unit came of the claim for nobody in 90 s: free again"
    ]


async def test_stock_with_an_invalid_spec_is_freed_as_well() -> None:
    world = World()
    world.add_stock_unit("odd", memory="much", is_ready=False)
    world.claim_by_hand("odd", "nobody", operation="lost")
    async with living(world), managing(world):
        await until(lambda: reason_of(world.stock("odd")), equals("InvalidSpec"))
        await until(lambda: claim_of(world, "odd"), not_, seconds=95)


async def test_stock_with_a_doubtful_claim_is_still_reconciled() -> None:
    world = World()
    world.unschedulable["p-1"] = "0/3 nodes are available"
    async with living(world), managing(world):
        world.add_pool(replicas=1)
        await until(lambda: "p-1" in world.stock_names)
        world.claim_by_hand("p-1", "nobody", operation="lost")
        await until(lambda: reason_of(world.stock("p-1")), equals("PodUnschedulable"), seconds=20)


async def test_a_new_attempt_begins_its_own_grace() -> None:
    world = World()
    async with living(world), managing(world):
        await seeded(world)
        world.claim_by_hand("p-1", "nobody", operation="lost")
        await asyncio.sleep(80)
        world.claim_by_hand("p-1", "nobody", operation="lost", **{labels.CLAIM_ATTEMPT: "2"})
        await asyncio.sleep(80)
        assert claim_of(world, "p-1")
        await until(lambda: claim_of(world, "p-1"), not_, seconds=12)


async def test_a_new_leader_begins_a_new_grace() -> None:
    world = World()
    async with living(world):
        async with managing(world):
            await seeded(world)
            world.claim_by_hand("p-1", "nobody", operation="lost")
            await asyncio.sleep(80)
        async with managing(world):
            await asyncio.sleep(80)
            assert claim_of(world, "p-1")
            await until(lambda: claim_of(world, "p-1"), not_, seconds=12)


async def test_a_unit_created_at_the_end_of_the_grace_keeps_its_claim() -> None:
    world = World()
    async with living(world), managing(world) as manager:
        await seeded(world)
        world.claim_by_hand("p-1", "demo", operation="late")
        await asyncio.sleep(85)
        marks = world.provenance("p-1", operation="late")
        manager.transport.hold_watches()
        world.add_unit("demo", annotations=marks)
        await asyncio.sleep(10)
        assert claim_of(world, "p-1")
        manager.transport.release_watches()
        await becomes(world, "demo", "Ready")
        await until(lambda: world.stock_names, not_)


async def test_a_unit_whose_stock_is_gone_waits_for_other_stock_and_takes_it() -> None:
    world = World()
    async with living(world), managing(world):
        await seeded(world)
        marks = world.provenance("p-1", operation="late")
        envelope = {name: world.stock("p-1")["spec"][name] for name in ("cpu", "memory", "gpu")}
        world.delete(GPU_UNITS, STOCK, "p-1")
        world.add_unit("demo", annotations=marks, **envelope)
        await until(lambda: reason_of(world.unit("demo")), equals("ClaimLost"))
        assert message_of(world.unit("demo")).startswith("stock runtime-stock/p-1 is gone; no ")
        assert phase_of(world.unit("demo")) == "Progressing"
        world.add_pool("q", replicas=1)
        await becomes(world, "demo", "Ready", seconds=30)
        assert notes(world.unit("demo"))[labels.SOURCE_STOCK] == f"{STOCK}/q-1"
        await until(lambda: world.stock_names, equals(["q-2"]))
        await quiet(world)
    told = [each.partition(":")[0] for each in world.told("demo")]
    assert sorted(told) == ["ClaimLost", "ClaimReplaced", "DeploymentReady"]


async def test_the_older_of_two_units_of_an_operation_starts_and_the_other_reports_it() -> None:
    world = World()
    async with living(world), managing(world):
        world.add_unit("first", annotations={labels.OPERATION_ID: "op"})
        await becomes(world, "first", "Ready")
        world.add_unit("second", annotations={labels.OPERATION_ID: "op"})
        await becomes(world, "second", "Failed")
        assert reason_of(world.unit("second")) == "OperationConflict"
        assert "belongs to unit runtime-instance/first" in message_of(world.unit("second"))
        world.delete(GPU_UNITS, INSTANCE, "first")
        await quiet(world, seconds=30.0)
        assert reason_of(world.unit("second")) == "OperationConflict"
        assert "unit-second" not in world.names(PODS, INSTANCE)
    assert [each.partition(":")[0] for each in world.told("second")] == ["OperationConflict"]


async def test_a_leader_that_follows_a_crash_starts_no_rival_in_its_first_minute() -> None:
    world = World()
    begun = asyncio.get_running_loop().time()

    def term() -> Term:
        age = asyncio.get_running_loop().time() - begun
        return Term(age_seconds=age, is_clean=False)

    for name in ("first", "second"):
        world.add_unit(name, annotations={labels.OPERATION_ID: "op"})
    async with living(world), managing(world, term=term):
        await asyncio.sleep(55)
        assert world.objects(PODS, INSTANCE) == []
        assert "waits until no request" in message_of(world.unit("first"))
        await becomes(world, "first", "Ready", seconds=15)
        assert reason_of(world.unit("second")) == "OperationConflict"


async def test_a_unit_under_the_name_of_a_finished_operation_is_deleted() -> None:
    world = World()
    marks = {labels.OPERATION_ID: "op", labels.REQUEST_HASH: "hash"}
    async with living(world), managing(world):
        world.add_unit("demo", annotations=marks)
        await becomes(world, "demo", "Ready")
        world.delete(GPU_UNITS, INSTANCE, "demo")
        await quiet(world)
        world.add_unit("demo", annotations=marks)
        await until(lambda: world.units, not_)
        await quiet(world)
    assert "OperationFinished: operation op has ended: its unit is removed" in world.told("demo")
    assert world.objects(PODS, INSTANCE) == []


async def test_a_unit_prefers_the_node_of_the_stock_that_it_takes_over() -> None:
    world = World()
    async with living(world), managing(world), replica(world) as api:
        await seeded(world)
        assert (await api.create("one", name="demo")).startswith("201")
        await becomes(world, "demo", "Ready")
    assert preferred_node(world, "demo") == ["node-1"]


async def test_a_unit_ignores_the_node_of_other_stock_under_its_stocks_name() -> None:
    world = World()
    async with living(world), managing(world), replica(world) as api:
        await seeded(world)
        assert (await api.create("one", name="demo")).startswith("201")
        await becomes(world, "demo", "Ready")
        await until(lambda: world.stock_names, not_)
        world.nodes["p-1"] = "node-2"
        world.add_stock_unit("p-1", is_ready=False)
        await until(lambda: world.stock("p-1").get("status", {}).get("nodeName"), equals("node-2"))
        world.change("demo", image="other")
        await until(lambda: "other" in repr(world.deployment("demo")))
    assert preferred_node(world, "demo") == ["node-1"]


def preferred_node(world: World, unit: str) -> list[str]:
    affinity = world.deployment(unit)["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    (preference,) = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    values: list[str] = preference["preference"]["matchExpressions"][0]["values"]
    return values
