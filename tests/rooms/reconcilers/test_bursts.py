"""Many units at once: one that is nearly finished does not wait for those that have not begun."""

import pytest

from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS
from gpuruntime.reconcilers.wiring import WORKERS
from tests.faults import FaultyTransport, slow
from tests.rooms.operations.cluster import INSTANCE
from tests.rooms.reconcilers.world import World, living, managing, phase_of, quiet, until

pytestmark = pytest.mark.looptime

UNITS = 6 * WORKERS
REQUEST_SECONDS = 0.5


def slow_down(transport: FaultyTransport) -> None:
    transport.on("GET|POST|PATCH", "", slow(before=REQUEST_SECONDS), times=100 * UNITS)


async def test_the_first_unit_of_a_burst_is_ready_before_the_last_has_begun() -> None:
    world = World()
    async with living(world), managing(world, prepare=slow_down):
        await quiet(world)
        for number in range(UNITS):
            world.add_unit(f"unit-{number}")

        await until(lambda: [each for each in world.units if phase_of(each) == "Ready"])

        assert len(world.names(DEPLOYMENTS, INSTANCE)) < UNITS
