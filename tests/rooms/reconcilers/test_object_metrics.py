"""Metrics of all objects on the leader, while objects come and go."""

from operator import not_

import pytest

from gpuruntime.models.kinds.pools import STOCK_POOLS
from tests.eventually import equals
from tests.rooms.operations.cluster import STOCK
from tests.rooms.reconcilers.world import Manager, World, becomes, living, managing, quiet, until

pytestmark = pytest.mark.looptime


def stages(manager: Manager) -> dict[str, int]:
    """A meter that counts the observations of each metric."""
    observed = manager.meter.observations
    return {title: times for title, times in observed.items() if "unit_stage_seconds" in title}


async def test_stock_and_units_are_counted_by_spec_name_and_state() -> None:
    world = World()
    world.add_pool(replicas=2)
    world.add_pool("once", refill="Never", specName="g2", replicas=3)
    world.add_unit("stranger", specName="nobodys")
    world.add_unit("declared", serverless={"requestID": "echo"})
    async with living(world), managing(world) as manager:
        object_metrics = manager.reconcilers.object_metrics
        await until(lambda: object_metrics.stock_units()["g2", "available"], equals(3))
        await becomes(world, "stranger", "Ready")
        spec = world.pool()["spec"]["specName"]
        assert object_metrics.stock_units() == {
            (spec, "available"): 2,
            (spec, "claimed"): 0,
            (spec, "progressing"): 0,
            (spec, "failed"): 0,
            ("g2", "available"): 3,
            ("g2", "claimed"): 0,
            ("g2", "progressing"): 0,
            ("g2", "failed"): 0,
        }
        assert object_metrics.stock_wanted() == {(spec,): 2, ("g2",): 0}
        told = {row: count for row, count in object_metrics.units().items() if count}
        assert told == {("other", "Ready"): 1}
        await until(lambda: object_metrics.pools()["Ready",], equals(2))
        assert object_metrics.storages() == {("Pending",): 0, ("Ready",): 0, ("Failed",): 0}


async def test_a_spec_name_without_a_pool_has_no_series_any_more() -> None:
    world = World()
    world.add_pool(replicas=1)
    async with living(world), managing(world) as manager:
        object_metrics = manager.reconcilers.object_metrics
        await until(object_metrics.stock_units)
        world.delete(STOCK_POOLS, STOCK, "p")
        await until(object_metrics.stock_units, not_)
        assert object_metrics.stock_wanted() == {}


async def test_the_stages_of_a_unit_are_measured_once_when_it_is_first_ready() -> None:
    world = World()
    world.add_pool(replicas=1)
    world.add_unit("unit")
    async with living(world), managing(world) as manager:
        await becomes(world, "unit", "Ready")
        await until(lambda: stages(manager))
        measured = stages(manager)
        assert measured["unit_stage_seconds ready"] == 1
        assert measured["unit_stage_seconds total"] == 1
        world.change("unit", suspended=True)
        await becomes(world, "unit", "Suspended")
        world.change("unit", suspended=False)
        await becomes(world, "unit", "Ready")
        await quiet(world)
        assert stages(manager) == measured
