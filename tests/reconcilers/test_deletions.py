"""The memory of operations that ended: who gets one, and when it goes."""

import asyncio
import json
from typing import Any

import pytest

from gpuruntime.inventory.tombstones import Tombstones
from gpuruntime.models import labels
from gpuruntime.models.cluster import CONFIG_MAPS
from gpuruntime.models.conditions import Condition
from gpuruntime.models.metadata import Key, ObjectMeta
from gpuruntime.models.units import GPU_UNITS, GPUUnit, GPUUnitSpec, GPUUnitStatus
from gpuruntime.reconcilers.deletions import SWEEP_SECONDS, Undertaker, bury
from gpuruntime.workqueue.queue import WorkQueue
from tests.faults import UNREACHABLE, refused
from tests.inventory.cluster import INSTANCE, SYSTEM, Replica, clock, replica
from tests.reconcilers.world import World, becomes, living, managing, quiet, until

pytestmark = pytest.mark.looptime

DEMO = Key(INSTANCE, "demo")


def unit(uid: str = "u1", *, operation: str = "op", reason: str = "DeploymentReady") -> GPUUnit:
    marks = {labels.OPERATION_ID: operation, labels.REQUEST_HASH: "h"} if operation else {}
    return GPUUnit(
        metadata=ObjectMeta(name="demo", namespace=INSTANCE, uid=uid, annotations=marks),
        spec=GPUUnitSpec(specName="g1"),
        status=GPUUnitStatus(conditions=(Condition(type="Ready", reason=reason),)),
    )


def tombstones_of(api: Replica, *, retention_seconds: float = 3_600.0) -> Tombstones:
    return Tombstones(
        api.means.client, namespace=SYSTEM, retention_seconds=retention_seconds, now=clock
    )


def buried(world: World) -> list[str]:
    """The uids."""
    held = world.objects(CONFIG_MAPS, SYSTEM)
    return sorted(json.loads(text)["uid"] for each in held for text in each["data"].values())


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (unit(), None, ["u1"]),
        (unit(), unit("u2"), ["u1"]),
        (unit(), unit(), []),
        (None, unit(), []),
        (unit(operation=""), None, []),
        (unit(reason="OperationConflict"), None, []),
    ],
    ids=["gone", "another of its name", "changed", "new", "no operation", "lost its operation"],
)
async def test_who_ends_an_operation_gets_a_tombstone(
    old: GPUUnit | None, new: GPUUnit | None, expected: list[str]
) -> None:
    world = World()
    async with replica(world) as api:
        undertaker = Undertaker(tombstones_of(api), WorkQueue("deletion"))
        undertaker.notice(DEMO, old, new)
        await undertaker.reconcile(DEMO)
    assert buried(world) == expected


async def test_each_of_several_units_of_a_name_is_buried() -> None:
    world = World()
    async with replica(world) as api:
        undertaker = Undertaker(tombstones_of(api), WorkQueue("deletion"))
        undertaker.notice(DEMO, unit("u1", operation="a"), unit("u2", operation="b"))
        undertaker.notice(DEMO, unit("u2", operation="b"), None)
        await undertaker.reconcile(DEMO)
    assert buried(world) == ["u1", "u2"]


async def test_a_write_that_failed_is_done_by_the_next_try() -> None:
    world = World()
    async with replica(world) as api:
        undertaker = Undertaker(tombstones_of(api), WorkQueue("deletion"))
        undertaker.notice(DEMO, unit(), None)
        api.transport.on("POST", "configmaps", refused(503, "ServiceUnavailable"))
        with pytest.raises(Exception, match="no"):
            await undertaker.reconcile(DEMO)
        await undertaker.reconcile(DEMO)
        assert buried(world) == ["u1"]
        sent = len(api.transport.sent)
        await undertaker.reconcile(DEMO)
        assert len(api.transport.sent) == sent


async def test_what_its_deletion_has_buried_is_not_buried_again() -> None:
    world = World()
    async with replica(world) as api:
        tombstones = tombstones_of(api)
        await tombstones.write(GPU_UNITS.kind, unit())
        api.transport.sent.clear()
        await bury(tombstones, GPU_UNITS.kind, unit())
        assert api.transport.written() == []
        await bury(tombstones, GPU_UNITS.kind, unit("u2"))
    assert buried(world) == ["u1", "u2"]


async def test_a_unit_deleted_by_anybody_is_remembered_for_the_retention_and_no_longer() -> None:
    world = World()
    async with living(world), managing(world, retention_seconds=100.0):
        world.add_unit("demo", annotations={labels.OPERATION_ID: "op"})
        await becomes(world, "demo", "Ready")
        world.delete(GPU_UNITS, INSTANCE, "demo")
        await until(lambda: len(buried(world)) == 1)
        await asyncio.sleep(90)
        assert len(buried(world)) == 1
        await until(lambda: not buried(world), seconds=2 * SWEEP_SECONDS)


async def test_a_sweep_that_fails_is_made_up_for_by_the_next() -> None:
    world = World()
    async with living(world), managing(world, retention_seconds=1.0) as manager:
        manager.transport.on("DELETE", "configmaps", UNREACHABLE)
        world.add_unit("demo", annotations={labels.OPERATION_ID: "op"})
        await becomes(world, "demo", "Ready")
        world.delete(GPU_UNITS, INSTANCE, "demo")
        await until(lambda: len(buried(world)) == 1)
        await until(lambda: not buried(world), seconds=3 * SWEEP_SECONDS)


async def test_a_tombstone_written_anew_during_a_sweep_counts_from_then() -> None:
    world = World()
    async with managing(world, retention_seconds=100.0) as manager:
        async with replica(world) as api:
            await tombstones_of(api, retention_seconds=1.0).write(GPU_UNITS.kind, unit())
            await quiet(world)
            manager.transport.hold_watches()
            await tombstones_of(api).write(GPU_UNITS.kind, unit())
            await asyncio.sleep(SWEEP_SECONDS)
        assert buried(world) == ["u1"]


async def test_nothing_of_ours_is_needed_to_read_a_tombstone() -> None:
    world = World()
    async with managing(world):
        body: dict[str, Any] = {
            "metadata": {
                "name": "operation-x",
                "labels": {labels.APP_NAME: "gpuruntime-tombstone"},
            },
            "data": {"u1": "not json"},
        }
        world.call("POST", CONFIG_MAPS.path(namespace=SYSTEM), body)
        await asyncio.sleep(2 * SWEEP_SECONDS)
    assert len(world.objects(CONFIG_MAPS, SYSTEM)) == 1
