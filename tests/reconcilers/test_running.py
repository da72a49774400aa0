"""Units of both namespaces on the embedded server, with real caches and queues."""

import pytest

from tests.reconcilers.world import World, living, managing, phase_of, until

pytestmark = pytest.mark.looptime


async def test_a_unit_starts_and_becomes_ready() -> None:
    world = World()
    async with living(world), managing(world):
        world.add_unit("demo")
        await until(lambda: phase_of(world.unit("demo")) == "Ready")
