"""Tombstones of finished operations: which units get one, and when it is deleted."""

import asyncio
import json
from operator import not_
from random import Random
from typing import Any

import pytest

from gpuruntime.informer.informer import Informer
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.units import GPU_UNITS, GPUUnit, GPUUnitSpec, GPUUnitStatus
from gpuruntime.models.kubernetes.cluster import CONFIG_MAPS
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import Key, ObjectMeta
from gpuruntime.operations.tombstones import Tombstones
from gpuruntime.reconcilers.tombstones import (
    MOST_REMEMBERED,
    REMEMBER_SECONDS,
    SWEEP_SECONDS,
    TombstoneWriter,
    ensure_tombstone,
)
from gpuruntime.workqueue.queue import WorkQueue
from tests.eventually import equals
from tests.faults import UNREACHABLE, refused
from tests.rooms.operations.cluster import INSTANCE, SYSTEM, Replica, clock, replica
from tests.rooms.reconcilers.world import World, becomes, living, managing, quiet, until

pytestmark = pytest.mark.looptime

DEMO = Key(INSTANCE, "demo")
UNAVAILABLE = refused(503, "ServiceUnavailable")


def unit(uid: str = "u1", *, operation: str = "op", reason: str = "DeploymentReady") -> GPUUnit:
    marks = {labels.OPERATION_ID: operation, labels.REQUEST_HASH: "h"} if operation else {}
    return GPUUnit(
        metadata=ObjectMeta(name="demo", namespace=INSTANCE, uid=uid, annotations=marks),
        spec=GPUUnitSpec(specName="g1"),
        status=GPUUnitStatus(conditions=(Condition(type="Ready", reason=reason),)),
    )


def tombstones_of(api: Replica, *, retention_seconds: float = 3_600.0) -> Tombstones:
    return Tombstones(
        api.context.client, namespace=SYSTEM, retention_seconds=retention_seconds, now=clock
    )


def undertaker_of(api: Replica, queue: WorkQueue[Key] | None = None) -> TombstoneWriter:
    """Return a writer with an empty cache."""
    mirror = Informer(api.context.client, CONFIG_MAPS, rng=Random(1))
    return TombstoneWriter(tombstones_of(api), queue or WorkQueue("deletion"), mirror)


def buried(world: World) -> list[str]:
    """Return the uids in the tombstones."""
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
async def test_a_unit_that_ends_its_operation_gets_a_tombstone(
    old: GPUUnit | None, new: GPUUnit | None, expected: list[str]
) -> None:
    world = World()
    async with replica(world) as api:
        undertaker = undertaker_of(api)
        undertaker.notice(DEMO, old, new)
        await undertaker.reconcile(DEMO)
    assert buried(world) == expected


async def test_each_of_several_units_of_a_name_gets_a_tombstone() -> None:
    world = World()
    async with replica(world) as api:
        undertaker = undertaker_of(api)
        undertaker.notice(DEMO, unit("u1", operation="a"), unit("u2", operation="b"))
        undertaker.notice(DEMO, unit("u2", operation="b"), None)
        await undertaker.reconcile(DEMO)
    assert buried(world) == ["u1", "u2"]


async def test_a_failed_write_is_done_by_the_retry() -> None:
    world = World()
    async with replica(world) as api:
        undertaker = undertaker_of(api)
        undertaker.notice(DEMO, unit(), None)
        api.transport.on("POST", "configmaps", UNAVAILABLE)
        with pytest.raises(Exception, match="no"):
            await undertaker.reconcile(DEMO)
        await undertaker.reconcile(DEMO)
        assert buried(world) == ["u1"]
        sent = len(api.transport.sent)
        await undertaker.reconcile(DEMO)
        assert len(api.transport.sent) == sent


async def test_a_tombstone_written_by_the_deletion_is_not_written_again() -> None:
    world = World()
    async with replica(world) as api:
        tombstones = tombstones_of(api)
        await tombstones.write(GPU_UNITS.kind, unit())
        api.transport.sent.clear()
        await ensure_tombstone(tombstones, GPU_UNITS.kind, unit())
        assert api.transport.written() == []
        await ensure_tombstone(tombstones, GPU_UNITS.kind, unit("u2"))
    assert buried(world) == ["u1", "u2"]


async def test_a_unit_deleted_by_any_client_is_remembered_for_the_retention() -> None:
    world = World()
    async with living(world), managing(world, retention_seconds=100.0):
        world.add_unit("demo", annotations={labels.OPERATION_ID: "op"})
        await becomes(world, "demo", "Ready")
        world.delete(GPU_UNITS, INSTANCE, "demo")
        await until(lambda: len(buried(world)), equals(1))
        await asyncio.sleep(90)
        assert len(buried(world)) == 1
        await until(lambda: buried(world), not_, seconds=2 * SWEEP_SECONDS)


async def test_a_failed_sweep_is_made_up_for_by_the_next() -> None:
    world = World()
    async with living(world), managing(world, retention_seconds=1.0) as manager:
        manager.transport.on("DELETE", "configmaps", UNREACHABLE)
        world.add_unit("demo", annotations={labels.OPERATION_ID: "op"})
        await becomes(world, "demo", "Ready")
        world.delete(GPU_UNITS, INSTANCE, "demo")
        await until(lambda: len(buried(world)), equals(1))
        await until(lambda: buried(world), not_, seconds=3 * SWEEP_SECONDS)


async def test_a_tombstone_rewritten_during_a_sweep_is_kept() -> None:
    world = World()
    async with managing(world, retention_seconds=100.0) as manager:
        async with replica(world) as api:
            await tombstones_of(api, retention_seconds=1.0).write(GPU_UNITS.kind, unit())
            await quiet(world)
            manager.transport.hold_watches()
            await tombstones_of(api).write(GPU_UNITS.kind, unit())
            await asyncio.sleep(SWEEP_SECONDS)
        assert buried(world) == ["u1"]


async def test_a_tombstone_can_be_read_without_our_other_objects() -> None:
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


def delete_by_hand(world: World) -> None:
    world.delete(GPU_UNITS, INSTANCE, "demo")


async def test_a_new_leader_writes_the_tombstones_that_the_last_one_could_not() -> None:
    world, turn = World(), asyncio.Event()
    async with living(world), managing(world, turn=turn) as standby:
        async with managing(world) as leader:
            leader.transport.on("POST", "configmaps", UNAVAILABLE, times=1_000)
            world.add_unit("demo", annotations={labels.OPERATION_ID: "op"})
            await becomes(world, "demo", "Ready")
            delete_by_hand(world)
            await asyncio.sleep(30)
            await leader.reconcilers.drain()
        assert buried(world) == []
        assert standby.transport.written() == []
        turn.set()
        await until(lambda: len(buried(world)), equals(1))
        world.add_unit("demo", annotations={labels.OPERATION_ID: "op"})
        await until(lambda: world.units, not_)


async def test_a_new_leader_sends_no_request_about_existing_tombstones() -> None:
    world, turn = World(), asyncio.Event()
    async with living(world), managing(world, turn=turn) as standby:
        async with managing(world):
            world.add_unit("demo", annotations={labels.OPERATION_ID: "op"})
            await becomes(world, "demo", "Ready")
            delete_by_hand(world)
            await until(lambda: len(buried(world)), equals(1))
            await asyncio.sleep(1)
        turn.set()
        await quiet(world)
        sent = [each for each in standby.transport.sent if "/configmaps/" in each.path]
        assert sent == []


async def test_a_standby_forgets_old_deletions() -> None:
    world, turn = World(), asyncio.Event()
    async with living(world), managing(world, turn=turn):
        async with managing(world) as leader:
            leader.transport.on("POST", "configmaps", UNAVAILABLE, times=1_000)
            world.add_unit("demo", annotations={labels.OPERATION_ID: "op"})
            await becomes(world, "demo", "Ready")
            delete_by_hand(world)
            await asyncio.sleep(1)
        await asyncio.sleep(REMEMBER_SECONDS)
        turn.set()
        await quiet(world)
    assert buried(world) == []


async def test_a_standby_remembers_a_bounded_number_of_the_latest_deletions() -> None:
    async with replica(World()) as api:
        queue: WorkQueue[Key] = WorkQueue("deletion")
        undertaker = undertaker_of(api, queue)
        for number in range(MOST_REMEMBERED + 1):
            undertaker.remember(Key(INSTANCE, f"demo-{number}"), unit(f"u{number}"), None)
        assert queue.depth == 0
        undertaker.begin()
        assert queue.depth == MOST_REMEMBERED
        assert await queue.get() == Key(INSTANCE, "demo-1")
