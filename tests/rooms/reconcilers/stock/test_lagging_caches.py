"""Each cache has its own watch: one may show a deletion that another does not show yet."""

import asyncio

import pytest

from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.network import SERVICES
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS
from tests.eventually import equals
from tests.rooms.operations.cluster import INSTANCE, STOCK
from tests.rooms.reconcilers.world import World, becomes, living, managing, phase_of, until

pytestmark = pytest.mark.looptime


async def test_children_of_a_deleted_unit_are_not_created_again() -> None:
    world = World()
    async with living(world), managing(world) as manager:
        world.add_unit("demo", template={"ports": [{"name": "http", "port": 80}]})
        await becomes(world, "demo", "Ready")
        manager.transport.hold_watches("/gpuunits")
        world.delete(GPU_UNITS, INSTANCE, "demo")
        await asyncio.sleep(10)
        assert world.made(DEPLOYMENTS)["POST"] == world.made(SERVICES)["POST"] == 1


async def test_children_of_deleted_stock_are_not_created_again() -> None:
    world = World()
    async with living(world), managing(world) as manager:
        world.add_pool(replicas=1)
        await until(lambda: phase_of(world.pool()), equals("Ready"))
        manager.transport.hold_watches("/gpuunits")
        world.delete(GPU_UNITS, STOCK, "p-1")
        await asyncio.sleep(10)
        assert world.made(DEPLOYMENTS)["POST"] == 1


async def test_a_deleted_child_is_created_again() -> None:
    world = World()
    async with living(world), managing(world):
        world.add_unit("demo", template={"ports": [{"name": "http", "port": 80}]})
        await becomes(world, "demo", "Ready")
        world.delete(SERVICES, INSTANCE, "unit-demo")
        world.delete(DEPLOYMENTS, INSTANCE, "unit-demo")
        await until(lambda: world.names(SERVICES, INSTANCE), equals(["unit-demo"]))
        await until(lambda: world.names(DEPLOYMENTS, INSTANCE), equals(["unit-demo"]))
