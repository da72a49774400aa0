"""Workers of a function are created through the same claim as all other units."""

import attrs
import pytest

from gpuruntime.models.kinds.functions import Serverless, WorkerOf
from gpuruntime.models.kinds.storages import GPU_STORAGES
from gpuruntime.models.kinds.units import GPU_UNITS, GPUUnit, StorageMount
from gpuruntime.models.requests.units import CreateUnit
from gpuruntime.operations.storage_identity import uids_asked
from tests.rooms.operations.cluster import INSTANCE, Cluster, Replica, order, replica, told

pytestmark = pytest.mark.looptime

FUNCTION = Serverless(requestID="echo", maxWorkers=1)


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


async def test_a_worker_takes_stock_and_its_template_does_not(cluster: Cluster) -> None:
    cluster.add_stock(2)
    async with replica(cluster) as process:
        declared = await template(process)
        assert not cluster.claimed
        assert await told(process.inventory, worker(declared)) == "201 echo-w-1"
        [claimed] = cluster.claimed
        made = await process.inventory.units.get("echo-w-1")
        assert made.spec.memory == claimed["spec"]["memory"]


async def test_a_worker_is_owned_by_the_unit_that_declares_its_function(cluster: Cluster) -> None:
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


def add_storage(cluster: Cluster) -> str:
    body = {
        "apiVersion": GPU_STORAGES.api_version,
        "kind": "GPUStorage",
        "metadata": {"name": "data"},
        "spec": {"size": "1Gi"},
    }
    made = cluster.call("POST", GPU_STORAGES.path(namespace=INSTANCE), body)
    return str(made["metadata"]["uid"])


async def test_a_worker_has_the_storage_uids_of_its_function(
    cluster: Cluster,
) -> None:
    cluster.add_stock(2)
    uid = add_storage(cluster)
    mounts = [{"name": "data", "mountPath": "/data"}]
    async with replica(cluster) as process:
        function = {"requestID": "echo", "maxWorkers": 1}
        wanted = order("template", name="echo", serverless=function, storageMounts=mounts)
        declared = (await process.inventory.units.create(wanted)).unit
        assert uids_asked(declared) == {"data": uid}

        first = attrs.evolve(worker(declared), storageMounts=declared.spec.storageMounts)
        given = uids_asked(declared)
        made = await process.inventory.units.create(first, storage_uids=given)
        assert uids_asked(made.unit) == {"data": uid}

        cluster.call("DELETE", GPU_STORAGES.path(namespace=INSTANCE, name="data"))
        add_storage(cluster)
        second = attrs.evolve(
            worker(declared, "echo-w-2"), storageMounts=declared.spec.storageMounts
        )
        made = await process.inventory.units.create(second, storage_uids=given)
        assert uids_asked(made.unit) == {"data": uid}


async def test_a_worker_of_a_function_without_uids_knows_storages_by_name(
    cluster: Cluster,
) -> None:
    cluster.add_stock()
    add_storage(cluster)
    mounts = (StorageMount(name="data", mountPath="/data"),)
    async with replica(cluster) as process:
        declared = await template(process)
        wanted = attrs.evolve(worker(declared), storageMounts=mounts)
        made = await process.inventory.units.create(wanted, storage_uids={})
        assert uids_asked(made.unit) == {}


async def test_a_taken_function_is_a_conflict_for_all_but_its_workers(
    cluster: Cluster,
) -> None:
    cluster.add_stock(2)
    async with replica(cluster) as process:
        declared = await template(process)
        assert await told(process.inventory, worker(declared)) == "201 echo-w-1"
        again = order("other", name="other", serverless={"requestID": "echo"})
        assert await told(process.inventory, again) == "name_taken"
        assert await told(process.inventory, worker(declared, "echo-w-2")) == "201 echo-w-2"
