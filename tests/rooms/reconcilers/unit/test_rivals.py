"""Several units of one operation: only one starts, even if a start is lost or not yet visible."""

import asyncio

import pytest

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS
from tests.eventually import equals
from tests.faults import FaultyTransport, landing_late, slow
from tests.rooms.operations.cluster import INSTANCE
from tests.rooms.reconcilers.world import World, managing, reason_of, until

pytestmark = pytest.mark.looptime

SHARED = {labels.OPERATION_ID: "shared"}


def start_by_another(world: World, unit: str) -> None:
    """Create what the request of an earlier leader creates when it lands."""
    owner = {
        "apiVersion": GPU_UNITS.api_version,
        "kind": GPU_UNITS.kind,
        "name": unit,
        "uid": world.unit(unit)["metadata"]["uid"],
        "controller": True,
    }
    selector = {labels.UNIT: unit}
    template = {
        "metadata": {"labels": selector},
        "spec": {"containers": [{"name": "runtime", "image": "python:3.12"}]},
    }
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"unit-{unit}", "labels": selector, "ownerReferences": [owner]},
        "spec": {"selector": {"matchLabels": selector}, "template": template},
    }
    world.call("POST", DEPLOYMENTS.path(namespace=INSTANCE), body)


async def test_a_rivals_start_counts_before_the_cache_shows_it() -> None:
    world = World()
    world.add_unit("older", annotations=SHARED)
    await asyncio.sleep(2)
    world.add_unit("younger", annotations=SHARED)

    def start_unseen(transport: FaultyTransport) -> None:
        transport.hold_watches("/deployments")
        start_by_another(world, "younger")

    async with managing(world, prepare=start_unseen):
        await until(lambda: reason_of(world.unit("older")), equals("OperationConflict"))
        await until(lambda: reason_of(world.unit("younger")).startswith("Deployment"))
    assert world.names(DEPLOYMENTS, INSTANCE) == ["unit-younger"]


async def test_a_unit_waits_while_the_start_of_a_rival_may_still_land() -> None:
    world = World()
    for spare in ("one", "two"):  # the second unit then has the smaller uid
        world.call("POST", "/api/v1/namespaces", {"metadata": {"name": spare}})
    async with managing(world) as manager:
        manager.transport.on("POST", "/deployments", landing_late(20.0), times=99)
        world.add_unit("first", annotations=SHARED)
        await asyncio.sleep(0.1)
        manager.transport.clear()
        world.add_unit("second", annotations=SHARED)
        first, second = (world.unit(name)["metadata"] for name in ("first", "second"))
        assert second["creationTimestamp"] == first["creationTimestamp"]
        assert second["uid"] < first["uid"], "the rival goes first unless the other has started"
        await asyncio.sleep(120)
    assert world.names(DEPLOYMENTS, INSTANCE) == ["unit-first"]
    assert reason_of(world.unit("second")) == "OperationConflict"


async def test_a_unit_is_judged_after_a_rival_whose_start_is_in_progress() -> None:
    world = World()
    for spare in ("one", "two"):
        world.call("POST", "/api/v1/namespaces", {"metadata": {"name": spare}})
    async with managing(world) as manager:
        manager.transport.on("POST", "/deployments", slow(before=0.5))
        world.add_unit("first", annotations=SHARED)
        await asyncio.sleep(0.1)
        world.add_unit("second", annotations=SHARED)
        assert world.unit("second")["metadata"]["uid"] < world.unit("first")["metadata"]["uid"]
        await asyncio.sleep(10)
    assert world.names(DEPLOYMENTS, INSTANCE) == ["unit-first"]
    assert reason_of(world.unit("second")) == "OperationConflict"
