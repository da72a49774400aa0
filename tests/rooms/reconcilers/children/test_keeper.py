"""Children whose name another owner's object has taken."""

import asyncio

import pytest

from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS
from tests.eventually import equals
from tests.rooms.operations.cluster import INSTANCE
from tests.rooms.reconcilers.world import World, living, managing, reason_of, until

pytestmark = pytest.mark.looptime


async def test_another_owners_child_is_read_again_without_a_write() -> None:
    """The child has none of our labels, so no cache contains it."""
    world = World()
    async with living(world), managing(world) as manager:
        add_foreign_deployment(world)
        world.add_unit("demo")
        await until(lambda: reason_of(world.unit("demo")), equals("DeploymentSyncFailed"))
        await asyncio.sleep(1)
        before, looks = manager.transport.written(), manager.reconciles("unit")
        await until(lambda: manager.reconciles("unit") > looks + 2)
        assert manager.transport.written() == before


def add_foreign_deployment(world: World) -> None:
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "x", "image": "x"}]},
    }
    spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    body = {"metadata": {"name": "unit-demo"}, "spec": spec}
    world.call("POST", DEPLOYMENTS.path(namespace=INSTANCE), body)
