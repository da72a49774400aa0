"""Claims and volumes on the embedded cluster, from creation to deletion."""

import asyncio
from typing import Any

import pytest

from gpuruntime.embedded.controllers.volume_claim_plan import DEFAULT_CLASS, PROVISIONER
from gpuruntime.embedded.kinds.cluster_objects import CLAIMS, STORAGE_CLASSES, VOLUMES, Claim
from gpuruntime.embedded.kinds.pod_objects import PODS
from gpuruntime.embedded.nodes.seed_objects import LATE_STORAGE_CLASS, STORAGE_CLASS
from gpuruntime.kube.errors import InvalidError
from tests.rooms.embedded.world import World, running_cluster

pytestmark = pytest.mark.looptime


def is_bound(claim: Claim) -> bool:
    return claim.status.phase == "Bound"


async def claimed(world: World, name: str = "data", **spec: Any) -> Claim:
    resources = {"requests": {"storage": "1Gi"}}
    filled = {"accessModes": ["ReadWriteOnce"], "resources": resources, **spec}
    return await world.make(CLAIMS, name, spec=filled)


async def immediate(world: World) -> None:
    members = {"provisioner": PROVISIONER, "allowVolumeExpansion": True}
    await world.make(STORAGE_CLASSES, "fast", **members)


async def test_a_claim_of_the_default_class_is_bound_at_once() -> None:
    async with running_cluster() as world:
        await claimed(world)
        bound = await world.until(CLAIMS, "data", is_bound, seconds=1)
        assert bound.spec.storageClassName == STORAGE_CLASS


async def test_a_waiting_claim_without_a_class_gets_the_default_one_once_it_exists() -> None:
    async with running_cluster() as world:
        none, one = ({"annotations": {DEFAULT_CLASS: each}} for each in (None, "true"))
        await world.patch(STORAGE_CLASSES, STORAGE_CLASS, metadata=none)
        await claimed(world)
        await asyncio.sleep(30)
        assert not is_bound(await world.get(CLAIMS, "data"))
        await world.patch(STORAGE_CLASSES, STORAGE_CLASS, metadata=one)
        bound = await world.until(CLAIMS, "data", is_bound)
        assert bound.spec.storageClassName == STORAGE_CLASS


async def test_a_claim_of_the_late_class_waits_for_its_first_user() -> None:
    async with running_cluster() as world:
        await claimed(world, storageClassName=LATE_STORAGE_CLASS)
        await asyncio.sleep(10)
        assert (await world.get(CLAIMS, "data")).status.phase == "Pending"
        assert await world.events("data") == [
            "WaitForFirstConsumer: waiting for first consumer to be created before binding"
        ]
        volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
        await world.pod("user", spec={"volumes": [volume]})
        bound = await world.until(CLAIMS, "data", is_bound)
        made = await world.get(VOLUMES, bound.spec.volumeName)
        assert made.status.phase == "Bound"
        await world.until(PODS, "user", lambda pod: pod.is_ready)


async def test_a_provisioned_volume_is_deleted_with_its_claim() -> None:
    async with running_cluster() as world:
        await immediate(world)
        await claimed(world, storageClassName="fast")
        bound = await world.until(CLAIMS, "data", is_bound)
        await world.delete(CLAIMS, "data")
        await world.until_gone(CLAIMS, "data")
        await world.until_gone(VOLUMES, bound.spec.volumeName)


async def test_a_claim_in_use_is_deleted_only_after_its_user() -> None:
    async with running_cluster() as world:
        await immediate(world)
        await claimed(world, storageClassName="fast")
        volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
        await world.pod("user", spec={"volumes": [volume]})
        await world.until(PODS, "user", lambda pod: pod.is_ready)
        await world.delete(CLAIMS, "data")
        await asyncio.sleep(10)
        assert (await world.get(CLAIMS, "data")).metadata.deletionTimestamp is not None
        await world.delete(PODS, "user")
        await world.until_gone(CLAIMS, "data")


async def test_a_claim_is_deleted_even_if_a_pod_that_never_ran_names_it() -> None:
    async with running_cluster() as world:
        await claimed(world)
        await world.until(CLAIMS, "data", is_bound)
        volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
        gates = [{"name": "example.com/wait"}]
        await world.pod("gated", spec={"volumes": [volume], "schedulingGates": gates})
        await world.delete(CLAIMS, "data")
        await world.until_gone(CLAIMS, "data")


async def test_a_static_volume_is_retained_when_its_claim_is_deleted() -> None:
    async with running_cluster() as world:
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "2Gi"},
            "hostPath": {"path": "/data"},
            "persistentVolumeReclaimPolicy": "Retain",
        }
        await world.make(VOLUMES, "disk", spec=spec)
        await world.until(VOLUMES, "disk", lambda volume: volume.status.phase == "Available")
        await claimed(world, storageClassName="")
        bound = await world.until(CLAIMS, "data", is_bound)
        assert bound.status.capacity == {"storage": "2Gi"}
        await world.delete(CLAIMS, "data")
        await world.until(VOLUMES, "disk", lambda volume: volume.status.phase == "Released")


async def test_a_claim_can_grow_but_not_shrink() -> None:
    async with running_cluster() as world:
        await immediate(world)
        await claimed(world, storageClassName="fast")
        await world.until(CLAIMS, "data", is_bound)
        await world.patch(CLAIMS, "data", spec={"resources": {"requests": {"storage": "5Gi"}}})
        grown = await world.until(
            CLAIMS, "data", lambda claim: claim.status.capacity == {"storage": "5Gi"}
        )
        volume = await world.get(VOLUMES, grown.spec.volumeName)
        assert volume.spec.capacity == {"storage": "5Gi"}
        with pytest.raises(InvalidError):
            await world.patch(CLAIMS, "data", spec={"resources": {"requests": {"storage": "2Gi"}}})
