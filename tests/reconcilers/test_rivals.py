"""Several units of one operation: only one starts, whatever of a start is lost or not yet seen."""

import asyncio

import pytest

from gpuruntime.models import labels
from gpuruntime.models.units import GPU_UNITS
from gpuruntime.models.workloads import DEPLOYMENTS
from tests.faults import FaultyTransport
from tests.inventory.cluster import INSTANCE
from tests.reconcilers.world import World, managing, reason_of, until

pytestmark = pytest.mark.looptime

SHARED = {labels.OPERATION_ID: "shared"}


def start_by_another(world: World, unit: str) -> None:
    """What an earlier leader's request makes when it lands."""
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


async def test_a_rival_has_started_also_where_the_cache_has_yet_to_show_it() -> None:
    world = World()
    world.add_unit("older", annotations=SHARED)
    await asyncio.sleep(2)
    world.add_unit("younger", annotations=SHARED)

    def start_unseen(transport: FaultyTransport) -> None:
        transport.hold_watches("/deployments")
        start_by_another(world, "younger")

    async with managing(world, prepare=start_unseen):
        await until(lambda: reason_of(world.unit("older")) == "OperationConflict")
        await until(lambda: reason_of(world.unit("younger")).startswith("Deployment"))
    assert world.names(DEPLOYMENTS, INSTANCE) == ["unit-younger"]
