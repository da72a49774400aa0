"""Stock that a unit may take again, and the unit's state if none is left."""

from typing import Any

import pytest

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.units import GPU_UNITS, GPUUnit, GPUUnitSpec, GPUUnitStatus
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.reconcilers.unit.reclaim_stock import may_take_again
from tests.eventually import equals
from tests.faults import ANSWER_LOST, Fault, refused
from tests.rooms.operations.cluster import INSTANCE, STOCK, notes
from tests.rooms.reconcilers.world import World, becomes, living, managing, reason_of, until

CLAIM = {
    labels.CLAIMED_BY: "instance/a",
    labels.OPERATION_ID: "op",
    labels.REQUEST_HASH: "h",
}


def unit(**marks: str) -> GPUUnit:
    own = {labels.OPERATION_ID: "op", labels.REQUEST_HASH: "h"}
    return GPUUnit(
        metadata=ObjectMeta(name="a", namespace="instance", annotations={**own, **marks}),
        spec=GPUUnitSpec(specName="g1"),
    )


def stock(
    marks: dict[str, str] | None = None, *, ready: bool = True, gone: bool = False
) -> GPUUnit:
    conditions = (Condition(type="Ready", status="True" if ready else "False"),)
    metadata: dict[str, Any] = {"name": "p-1", "namespace": "stock", "uid": "s1"}
    if gone:
        metadata["deletionTimestamp"] = "2025-01-01T00:00:00Z"
    return GPUUnit(
        metadata=ObjectMeta(**metadata, annotations=marks or {}),
        spec=GPUUnitSpec(specName="g1"),
        status=GPUUnitStatus(conditions=conditions),
    )


NAMED = {labels.SOURCE_STOCK_UID: "s1"}


@pytest.mark.parametrize(
    ("held", "by", "expected"),
    [
        (stock(CLAIM), unit(), True),
        (stock(CLAIM, ready=False), unit(), True),
        (stock(CLAIM, gone=True), unit(), False),
        (stock({**CLAIM, labels.CLAIMED_BY: "instance/b"}), unit(), False),
        (stock({**CLAIM, labels.OPERATION_ID: "other"}), unit(**NAMED), False),
        (stock({**CLAIM, labels.REQUEST_HASH: "other"}), unit(), False),
        (stock(), unit(**NAMED), True),
        (stock(ready=False), unit(**NAMED), False),
        (stock(), unit(), False),
        (stock(), unit(**{labels.SOURCE_STOCK_UID: "s2"}), False),
    ],
    ids=[
        "claimed for it",
        "claimed for it, not ready",
        "claimed for it, terminating",
        "claimed for another unit",
        "claimed by another operation",
        "claimed by another request",
        "named and free",
        "named and free, not ready",
        "free but not named",
        "free but another uid is named",
    ],
)
def test_a_unit_takes_again_only_stock_that_no_other_unit_can_hold(
    held: GPUUnit, by: GPUUnit, expected: bool
) -> None:
    assert may_take_again(held, by) is expected


def add_orphan(world: World, stock_name: str, **spec: Any) -> None:
    """Add a unit whose own stock is gone."""
    source = world.stock(stock_name)["spec"]
    envelope = {name: source[name] for name in ("cpu", "memory", "gpu")}
    marks = world.provenance(stock_name, operation="late")
    world.delete(GPU_UNITS, STOCK, stock_name)
    world.add_unit("demo", annotations=marks, **{**envelope, **spec})


def available(world: World) -> int:
    count: int = world.pool().get("status", {}).get("available", 0)
    return count


@pytest.mark.looptime
@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize(
    "fault", [ANSWER_LOST, Fault(is_unreachable=True)], ids=["answer lost", "unreachable"]
)
async def test_one_stock_unit_is_used_whichever_request_is_lost(number: int, fault: Fault) -> None:
    world = World()
    async with living(world):
        async with managing(world):
            world.add_pool(replicas=3, refill="Never")
            await until(lambda: available(world), equals(3))
        add_orphan(world, "p-1")
        async with managing(world, prepare=lambda transport: transport.on_write(number, fault)):
            await becomes(world, "demo", "Ready", seconds=300)
            await until(lambda: len(world.stock_names), equals(1), seconds=300)
    assert not notes(world.stock(world.stock_names[0])).get(labels.CLAIMED_BY)


@pytest.mark.looptime
async def test_stock_of_another_envelope_is_not_claimed() -> None:
    world = World()
    async with living(world), managing(world):
        world.add_pool(replicas=2, refill="Never")
        await until(lambda: available(world), equals(2))
        add_orphan(world, "p-1", gpu=2)
        await until(lambda: reason_of(world.unit("demo")), equals("ClaimLost"))
    assert world.stock_names == ["p-2"]
    assert world.objects(GPU_UNITS, INSTANCE)[0]["status"]["phase"] == "Progressing"


@pytest.mark.looptime
async def test_a_unit_waits_for_a_claim_of_its_operation_for_another_request() -> None:
    world = World()
    async with living(world), managing(world):
        world.add_pool(replicas=2, refill="Never")
        await until(lambda: available(world), equals(2))
        world.claim_by_hand("p-2", "other", operation="late", **{labels.REQUEST_HASH: "other"})
        add_orphan(world, "p-1")
        await until(lambda: reason_of(world.unit("demo")), equals("ClaimLost"))
        await becomes(world, "demo", "Ready", seconds=150)
    assert notes(world.unit("demo"))[labels.SOURCE_STOCK] == f"{STOCK}/p-2"


@pytest.mark.looptime
async def test_a_unit_claims_other_stock_if_its_first_choice_is_refused() -> None:
    world = World()
    async with living(world):
        async with managing(world):
            world.add_pool(replicas=3, refill="Never")
            await until(lambda: available(world), equals(3))
        add_orphan(world, "p-1")
        world.claim_by_hand("p-2", "demo", operation="late")
        path, no = f"{GPU_UNITS.path(namespace=STOCK, name='p-2')}$", refused(422, "Invalid")
        async with managing(
            world, prepare=lambda transport: transport.on("PATCH", path, no, times=1_000)
        ):
            await becomes(world, "demo", "Ready")
    assert notes(world.unit("demo"))[labels.SOURCE_STOCK] == f"{STOCK}/p-3"
