"""Children whose name another owner's object has taken."""

import asyncio

import pytest

from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS
from tests.eventually import equals
from tests.rooms.operations.cluster import INSTANCE, Document
from tests.rooms.reconcilers.world import World, living, managing, phase_of, reason_of, until

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


async def test_a_child_that_drifts_as_before_is_mended_again() -> None:
    """The keeper remembers that the child had no drift, until the child or its owner changes."""
    world = World()
    path = DEPLOYMENTS.path(namespace=INSTANCE, name="unit-demo")
    async with living(world), managing(world):
        world.add_unit("demo")
        await until(lambda: phase_of(world.unit("demo")), equals("Ready"))
        for _ in range(2):
            world.call("PATCH", path, {"spec": {"replicas": 3}})
            await until(lambda: world.deployment("demo")["spec"]["replicas"], equals(1))
        for image in ("other", "former", "other"):
            world.change("demo", image=image)
            await until(lambda: image_of(world.deployment("demo")), equals(image))


def image_of(deployment: Document) -> str:
    return str(deployment["spec"]["template"]["spec"]["containers"][0]["image"])


def add_foreign_deployment(world: World) -> None:
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "x", "image": "x"}]},
    }
    spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    body = {"metadata": {"name": "unit-demo"}, "spec": spec}
    world.call("POST", DEPLOYMENTS.path(namespace=INSTANCE), body)
