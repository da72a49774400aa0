"""Storages are created once, and a recovery is written once before it is answered."""

import asyncio

import attrs
import pytest

from gpuruntime.models.kinds.storages import GPU_STORAGES, RECOVER
from gpuruntime.operations.errors import NothingToRecoverError, OperationFinishedError
from gpuruntime.operations.requests import parse_create_storage
from tests.faults import ANSWER_LOST, DROPPED, Fault, landing_late, refused
from tests.rooms.operations.cluster import INSTANCE, NAMESPACES, Cluster, notes, replica

pytestmark = pytest.mark.looptime

FAILED = {"phase": "Failed", "jobName": "storage-prepare-demo-1", "observedDigest": "1"}
RUNNING = {"phase": "Running", "jobName": "storage-prepare-demo-2", "observedDigest": "2"}


def add_storage(cluster: Cluster) -> None:
    """Add a storage whose prepare failed."""
    body = {
        "apiVersion": GPU_STORAGES.api_version,
        "kind": "GPUStorage",
        "metadata": {"name": "demo"},
        "spec": {"size": "1Gi", "prepare": {"fromImage": "busybox:1.36", "command": ["fill"]}},
    }
    cluster.call("POST", GPU_STORAGES.path(namespace=INSTANCE), body)
    mark(cluster, FAILED)


def mark(cluster: Cluster, prepare: dict[str, str]) -> None:
    path = GPU_STORAGES.path(namespace=INSTANCE, name="demo", subresource="status")
    cluster.call("PATCH", path, {"status": {"prepare": prepare}})


async def test_a_storage_restored_by_a_late_create_is_not_the_answer(
    cluster: Cluster,
) -> None:
    """A late create brings the storage back until the manager removes it again."""
    order = parse_create_storage({"operationID": "o", "name": "demo", "size": "1Gi"}, NAMESPACES)
    async with replica(cluster) as api:
        await api.inventory.storages.create(order)
        [made] = cluster.objects(GPU_STORAGES, INSTANCE)
        await api.inventory.storages.delete("demo")
        metadata = {name: made["metadata"][name] for name in ("name", "namespace", "annotations")}
        late = {**made, "metadata": metadata, "status": {}}
        cluster.call("POST", GPU_STORAGES.path(namespace=INSTANCE), late)
        await asyncio.sleep(1)
        with pytest.raises(OperationFinishedError):
            await api.inventory.storages.create(order)


@pytest.mark.parametrize(
    "fault",
    [ANSWER_LOST, DROPPED, refused(500, "InternalError"), landing_late(0.0015)],
    ids=["answer lost", "dropped", "500", "late"],
)
async def test_a_recovery_whose_answer_was_lost_is_written(cluster: Cluster, fault: Fault) -> None:
    add_storage(cluster)
    async with replica(cluster) as api:
        api.transport.on("PUT", "demo", fault)
        told = await api.inventory.storages.recover("demo")
    [stored] = cluster.objects(GPU_STORAGES, INSTANCE)
    assert notes(stored)[RECOVER] == told.metadata.annotations[RECOVER]


async def test_a_recovery_that_began_before_it_was_read_back_is_answered(cluster: Cluster) -> None:
    add_storage(cluster)
    async with replica(cluster) as api:
        begins = attrs.evolve(ANSWER_LOST, then=lambda: mark(cluster, RUNNING))
        api.transport.on("PUT", "demo", begins)
        told = await api.inventory.storages.recover("demo")
    assert RECOVER in told.metadata.annotations


async def test_a_recovery_in_progress_is_not_asked_for_again(cluster: Cluster) -> None:
    add_storage(cluster)
    async with replica(cluster) as api:
        first = await api.inventory.storages.recover("demo")
        again = await api.inventory.storages.recover("demo")
        assert again.metadata.annotations == first.metadata.annotations
        assert [each.split()[0] for each in api.transport.written()] == ["PUT"]
        mark(cluster, RUNNING)
        with pytest.raises(NothingToRecoverError, match="nothing to recover"):
            await api.inventory.storages.recover("demo")
