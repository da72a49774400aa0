"""Units that work for a function, made through the same claim as all others."""

import attrs
import pytest

from gpuruntime.inventory.requests import CreateUnit
from gpuruntime.models.functions import Serverless, WorkerOf
from gpuruntime.models.units import GPU_UNITS, GPUUnit
from tests.inventory.cluster import INSTANCE, Cluster, Replica, order, replica, told

pytestmark = pytest.mark.looptime

FUNCTION = Serverless(requestID="echo")


async def template(process: Replica) -> GPUUnit:
    made = await process.inventory.units.create(
        order("template", name="echo", serverless={"requestID": "echo"})
    )
    return made.unit


def worker(of: GPUUnit, name: str = "echo-w-1") -> CreateUnit:
    owner = WorkerOf(name=of.metadata.name, uid=of.metadata.uid)
    return attrs.evolve(
        order(f"operation-{name}", name=name), serverless=attrs.evolve(FUNCTION, workerOf=owner)
    )


async def test_a_worker_takes_stock_which_its_template_does_not(cluster: Cluster) -> None:
    cluster.add_stock(2)
    async with replica(cluster) as process:
        declared = await template(process)
        assert not cluster.claimed
        assert await told(process.inventory, worker(declared)) == "201 echo-w-1"
        [claimed] = cluster.claimed
        made = await process.inventory.units.get("echo-w-1")
        assert made.spec.memory == claimed["spec"]["memory"]


async def test_a_worker_belongs_to_the_unit_that_declares_its_function(cluster: Cluster) -> None:
    cluster.add_stock()
    async with replica(cluster) as process:
        declared = await template(process)
        made = (await process.inventory.units.create(worker(declared))).unit
        owner = made.metadata.controller_owner
        assert owner is not None
        assert (owner.kind, owner.name, owner.uid) == (
            GPU_UNITS.kind,
            "echo",
            declared.metadata.uid,
        )
        found = cluster.call("GET", GPU_UNITS.path(namespace=INSTANCE, name="echo"))
        assert "ownerReferences" not in found["metadata"]


async def test_the_name_of_a_function_is_no_obstacle_for_its_workers_alone(
    cluster: Cluster,
) -> None:
    cluster.add_stock(2)
    async with replica(cluster) as process:
        declared = await template(process)
        assert await told(process.inventory, worker(declared)) == "201 echo-w-1"
        again = order("other", name="other", serverless={"requestID": "echo"})
        assert await told(process.inventory, again) == "name_taken"
        assert await told(process.inventory, worker(declared, "echo-w-2")) == "201 echo-w-2"
