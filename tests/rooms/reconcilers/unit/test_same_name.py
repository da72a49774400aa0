"""A unit created under the name of an earlier one, perhaps another tenant's, whose Pods remain."""

import asyncio
from typing import Any

import pytest

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.network import NETWORK_POLICIES, SERVICES
from gpuruntime.models.kubernetes.pods import PODS
from gpuruntime.models.kubernetes.resources import Resource
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS
from tests.eventually import equals
from tests.rooms.operations.cluster import INSTANCE, Document
from tests.rooms.reconcilers.world import (
    World,
    becomes,
    living,
    managing,
    message_of,
    quiet,
    reason_of,
    until,
)

pytestmark = pytest.mark.looptime

SERVING: dict[str, Any] = {"template": {"ports": [{"name": "http", "port": 80}]}}
CHILDREN = (DEPLOYMENTS, SERVICES, NETWORK_POLICIES)


def hold(world: World, resource: Resource[Any]) -> None:
    """Keep the object of the first unit from ending."""
    held(world, resource, ["tests.example.com/held"])


def release(world: World, resource: Resource[Any]) -> None:
    held(world, resource, None)


def held(world: World, resource: Resource[Any], finalizers: list[str] | None) -> None:
    (name,) = world.names(resource, INSTANCE)
    path = resource.path(namespace=INSTANCE, name=name)
    world.call("PATCH", path, {"metadata": {"finalizers": finalizers}})


def make_again(world: World, **spec: Any) -> None:
    world.delete(GPU_UNITS, INSTANCE, "demo")
    world.add_unit("demo", **spec)


def children(world: World) -> list[Document]:
    """Return the children of the current unit."""
    uid = world.unit("demo")["metadata"]["uid"]
    found = [each for resource in CHILDREN for each in world.objects(resource, INSTANCE)]
    return [each for each in found if each["metadata"]["ownerReferences"][0]["uid"] == uid]


def selected(world: World, pod: Document) -> list[bool]:
    """Return of each child of the unit whether it selects the Pod."""
    found = []
    for child in children(world):
        spec = child["spec"]
        selector = spec.get("selector") or spec["podSelector"]
        wanted = selector.get("matchLabels", selector)
        found.append(wanted.items() <= pod["metadata"]["labels"].items())
    return found


async def test_nothing_of_a_unit_leads_to_a_pod_of_an_earlier_unit_of_the_name() -> None:
    world = World()
    async with living(world), managing(world):
        world.add_unit("demo", **SERVING)
        await becomes(world, "demo", "Ready")
        assert world.unit("demo")["status"]["nodeName"] == "node-1"
        (earlier,) = world.objects(PODS, INSTANCE)
        assert selected(world, earlier) == [True, True, True]
        hold(world, PODS)
        world.nodes["demo"] = "node-2"
        make_again(world, **SERVING)
        await becomes(world, "demo", "Ready", seconds=5)
        assert world.unit("demo")["status"]["nodeName"] == "node-2"
        left, own = world.objects(PODS, INSTANCE)
        assert left["metadata"]["uid"] == earlier["metadata"]["uid"]
        assert selected(world, left) == [False, False, False]
        assert selected(world, own) == [True, True, True]


async def test_a_unit_starts_without_a_list_of_pods() -> None:
    world = World()
    async with living(world), managing(world) as manager:
        await quiet(world)
        manager.transport.sent.clear()
        world.add_unit("demo", **SERVING)
        await becomes(world, "demo", "Ready")
        reads = [each for each in manager.transport.sent if each.method == "GET"]
        assert [each.path for each in reads if dict(each.query).get("watch") is None] == []


async def test_a_unit_does_not_report_on_a_pod_that_the_name_had_before_it_was_restored() -> None:
    world = World()
    async with living(world):
        async with managing(world):
            world.add_unit("demo", **SERVING)
            await becomes(world, "demo", "Ready")
        status = world.unit("demo")["status"]
        hold(world, PODS)
        # A backup is taken and restored, seconds after its objects were created.
        await asyncio.sleep(5)
        world.nodes["demo"] = "node-2"
        make_again(world, suspended=True, **SERVING)
        path = GPU_UNITS.path(namespace=INSTANCE, name="demo", subresource="status")
        world.call("PATCH", path, {"status": status})
        async with managing(world):
            await becomes(world, "demo", "Suspended")
            world.change("demo", suspended=False)
            await until(lambda: world.unit("demo")["status"].get("nodeName"), equals("node-2"))
            await becomes(world, "demo", "Ready")


@pytest.mark.parametrize("resource", CHILDREN, ids=lambda resource: resource.kind)
@pytest.mark.parametrize("suspended", [False, True], ids=["running", "suspended"])
async def test_a_unit_waits_for_a_child_of_the_earlier_unit(
    resource: Resource[Any], *, suspended: bool
) -> None:
    world = World()
    async with living(world), managing(world) as manager:
        world.add_unit("demo", suspended=suspended, **SERVING)
        await becomes(world, "demo", "Suspended" if suspended else "Ready")
        hold(world, resource)
        make_again(world, **SERVING)
        await quiet(world)
        assert children(world) == []
        assert reason_of(world.unit("demo")) == "DeploymentProgressing"
        told = f"waits until {resource.kind} runtime-instance/unit-demo of the unit that had this"
        assert told in message_of(world.unit("demo"))
        assert world.unit("demo")["status"].get("nodeName", "") == ""
        manager.transport.sent.clear()
        await asyncio.sleep(60)
        assert manager.transport.sent == []

        release(world, resource)
        await becomes(world, "demo", "Ready", seconds=5)


async def test_the_deployment_of_a_unit_has_the_uid_of_the_unit_in_its_selector() -> None:
    world = World()
    async with living(world), managing(world):
        world.add_unit("demo")
        await becomes(world, "demo", "Ready")
        spec = world.deployment("demo")["spec"]
        own = {labels.UNIT: "demo", labels.UNIT_UID: world.unit("demo")["metadata"]["uid"]}
        assert spec["selector"]["matchLabels"] == own
