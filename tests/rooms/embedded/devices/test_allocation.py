"""Devices on the embedded cluster that the real one of the tests cannot show: taints, failures."""

import asyncio
from random import Random
from typing import Any

import attrs
import pytest

from gpuruntime.embedded.controllers.informers import Informers
from gpuruntime.embedded.controllers.object_patches import wire
from gpuruntime.embedded.devices.inventory import DeviceInventory
from gpuruntime.embedded.kinds.pod_objects import PODS, Pod
from gpuruntime.embedded.nodes.seed_objects import DeviceOptions
from gpuruntime.embedded.scheduler.device_writes import DeviceWrites
from gpuruntime.models.encoding.json import JsonValue
from gpuruntime.models.kubernetes.devices import (
    DEVICE_CLASSES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Consumer,
    ResourceClaim,
)
from gpuruntime.models.kubernetes.metadata import Key
from tests.rooms.embedded.world import NODE, World, running_cluster

pytestmark = pytest.mark.looptime

DRIVER = "gpu.test"
DEVICES = DeviceOptions(count=2, class_name="gpu", driver=DRIVER, product="TEST")
FURNISHED = attrs.evolve(NODE, devices=DEVICES)
SLICE = f"node-0-{DRIVER}"


async def claim(world: World, name: str, **exactly: Any) -> None:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", **exactly}}
    await world.make(RESOURCE_CLAIMS, name, spec={"devices": {"requests": [request]}})


async def pod(world: World, name: str, claim_name: str, **spec: Any) -> Pod:
    claims = [{"name": "gpu", "resourceClaimName": claim_name}]
    return await world.pod(name, spec={"resourceClaims": claims, **spec})


def is_running(seen: Pod) -> bool:
    return seen.status.phase == "Running"


def is_refused(seen: Pod) -> bool:
    condition = seen.condition("PodScheduled")
    return condition is not None and not condition.is_true


def held(seen: ResourceClaim) -> list[str]:
    allocation = seen.status.allocation
    return [each.device for each in allocation.devices.results] if allocation else []


async def enter(world: World, name: str, consumer: Pod) -> ResourceClaim:
    """Add a consumer under the guard of the version that was read."""
    seen = await world.get(RESOURCE_CLAIMS, name)
    entry = Consumer(resource="pods", name=consumer.metadata.name, uid=consumer.metadata.uid)
    entries: list[JsonValue] = [wire(each) for each in (*seen.status.reservedFor, entry)]
    return await world.client.patch(
        RESOURCE_CLAIMS,
        Key("default", name),
        {"status": {"reservedFor": entries}},
        resource_version=seen.metadata.resourceVersion,
        subresource="status",
    )


async def taint(world: World, number: int, effect: str) -> None:
    seen = world.raw(f"/apis/resource.k8s.io/v1/resourceslices/{SLICE}")
    devices = seen["spec"]["devices"]
    devices[number]["taints"] = [{"key": "sick", "effect": effect}]
    await world.patch(RESOURCE_SLICES, SLICE, spec={"devices": devices})


async def test_nodes_are_furnished_with_devices_and_a_class() -> None:
    async with running_cluster(nodes=FURNISHED) as world:
        [each] = await world.all(RESOURCE_SLICES)
        assert (each.metadata.name, each.spec.nodeName) == (SLICE, "node-0")
        assert [device.name for device in each.spec.devices] == ["gpu-0", "gpu-1"]
        attributes = each.spec.devices[1].attributes
        assert attributes["uuid"] == {"string": "GPU-node-0-1"}
        assert attributes["productName"] == {"string": "TEST"}
        [found] = await world.all(DEVICE_CLASSES)
        assert found.metadata.name == "gpu"


async def test_nodes_have_no_devices_by_default() -> None:
    async with running_cluster() as world:
        assert await world.all(RESOURCE_SLICES) == []
        assert await world.all(DEVICE_CLASSES) == []


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
async def test_a_tainted_device_is_not_allocated(effect: str) -> None:
    async with running_cluster(nodes=FURNISHED) as world:
        await taint(world, 0, effect)
        await claim(world, "c")
        await pod(world, "p", "c")
        await world.until(PODS, "p", is_running)
        assert held(await world.get(RESOURCE_CLAIMS, "c")) == ["gpu-1"]


async def test_a_claim_that_tolerates_a_taint_gets_the_device() -> None:
    async with running_cluster(nodes=FURNISHED) as world:
        await taint(world, 0, "NoSchedule")
        await claim(world, "c", tolerations=[{"key": "sick", "operator": "Exists"}])
        await pod(world, "p", "c")
        await world.until(PODS, "p", is_running)
        assert held(await world.get(RESOURCE_CLAIMS, "c")) == ["gpu-0"]


async def test_a_taint_is_not_judged_again_for_a_second_pod() -> None:
    async with running_cluster(nodes=FURNISHED) as world:
        await claim(world, "c")
        await pod(world, "one", "c")
        await world.until(PODS, "one", is_running)
        await taint(world, 0, "NoSchedule")
        await pod(world, "two", "c")
        await world.until(PODS, "two", is_running)
        assert held(await world.get(RESOURCE_CLAIMS, "c")) == ["gpu-0"]


async def test_pods_of_a_full_node_wait_and_get_freed_devices_by_priority() -> None:
    async with running_cluster(nodes=FURNISHED) as world:
        for number in range(4):
            await claim(world, f"c{number}")
            await pod(world, f"p{number}", f"c{number}")
        for number in range(2):
            await world.until(PODS, f"p{number}", is_running)
        for number in (2, 3):
            await world.until(PODS, f"p{number}", is_refused)
        await world.delete(PODS, "p0", grace_seconds=0)
        await world.until(PODS, "p2", is_running)
        taken = [held(await world.get(RESOURCE_CLAIMS, f"c{number}")) for number in range(4)]
        assert taken == [[], ["gpu-1"], ["gpu-0"], []]


async def test_no_two_claims_get_one_device_in_a_burst() -> None:
    devices = attrs.evolve(DEVICES, count=32)
    nodes = attrs.evolve(NODE, count=2, cpu="64", devices=devices)
    async with running_cluster(nodes=nodes) as world:
        for number in range(64):
            await claim(world, f"c{number}")
            await pod(world, f"p{number}", f"c{number}")
        for number in range(64):
            await world.until(PODS, f"p{number}", is_running)
        claims = await world.all(RESOURCE_CLAIMS)
        found = [
            each.identity
            for one in claims
            if one.status.allocation is not None
            for each in one.status.allocation.devices.results
        ]
        assert len(found) == len(set(found)) == 64


async def test_a_decision_that_is_undone_takes_only_its_pod_out_of_the_claim() -> None:
    async with running_cluster(nodes=FURNISHED) as world:
        await claim(world, "c")
        await pod(world, "p", "c")
        await world.until(PODS, "p", is_running)
        gated = await pod(world, "gated", "c", schedulingGates=[{"name": "example.com/gate"}])
        await enter(world, "c", gated)
        informers = Informers(world.client, Random(1), Random(2))
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(informers.run())
            await informers.synced()
            writes = DeviceWrites(world.client, informers, DeviceInventory(informers))
            await writes.undo((Key("default", "c"),), gated)
            running.cancel()
        seen = await world.get(RESOURCE_CLAIMS, "c")
        assert [each.name for each in seen.status.reservedFor] == ["p"]
        assert held(seen) == ["gpu-0"]


async def test_a_claim_of_no_requests_is_allocated_on_any_node() -> None:
    async with running_cluster(nodes=FURNISHED) as world:
        await world.make(RESOURCE_CLAIMS, "c", spec={"devices": {"requests": []}})
        await pod(world, "p", "c")
        await world.until(PODS, "p", is_running)
        seen = await world.get(RESOURCE_CLAIMS, "c")
        assert seen.status.allocation is not None
        assert seen.status.allocation.nodeSelector is None


async def test_a_deployments_next_pod_gets_the_device_that_a_consumer_keeps() -> None:
    async with running_cluster(nodes=FURNISHED) as world:
        await claim(world, "c")
        await pod(world, "p", "c")
        keeper = await world.pod("keeper", spec={"schedulingGates": [{"name": "example.com/k"}]})
        await world.until(PODS, "p", is_running)
        seen = await enter(world, "c", keeper)
        await world.delete(PODS, "p", grace_seconds=0)
        await world.until_gone(PODS, "p")
        await claim(world, "rival", count=2)
        await pod(world, "rival", "rival")
        await world.until(PODS, "rival", is_refused)
        await pod(world, "p", "c")
        await world.until(PODS, "p", is_running)
        assert held(await world.get(RESOURCE_CLAIMS, "c")) == held(seen)
