"""A unit created under the name of an earlier one, perhaps another tenant's, whose Pods remain."""

import asyncio
from typing import Any

import pytest

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
STRANGE: dict[str, Any] = {"matchLabels": {"app": "strange"}}
SPECS: dict[str, Any] = {
    DEPLOYMENTS.kind: {
        "replicas": 0,
        "selector": STRANGE,
        "template": {
            "metadata": {"labels": STRANGE["matchLabels"]},
            "spec": {"containers": [{"name": "c", "image": "c:1"}]},
        },
    },
    SERVICES.kind: {"ports": [{"port": 80}]},
    NETWORK_POLICIES.kind: {"podSelector": STRANGE},
}


def hold(world: World, resource: Resource[Any]) -> None:
    """Keep the Pod of the first unit from ending."""
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


async def test_no_service_leads_to_a_pod_of_an_earlier_unit_of_the_name() -> None:
    world = World()
    async with living(world), managing(world):
        world.add_unit("demo", **SERVING)
        await becomes(world, "demo", "Ready")
        hold(world, PODS)
        make_again(world, **SERVING)
        await quiet(world)
        assert children(world) == []
        assert reason_of(world.unit("demo")) == "DeploymentProgressing"
        assert "an earlier unit demo has ended: unit-demo-1" in message_of(world.unit("demo"))
        assert world.unit("demo")["status"].get("nodeName", "") == ""

        release(world, PODS)
        await becomes(world, "demo", "Ready", seconds=5)
        assert len(children(world)) == 3


async def test_the_owner_of_the_deployment_that_keeps_an_earlier_pod_is_named() -> None:
    world = World()
    async with living(world), managing(world):
        world.add_unit("demo", **SERVING)
        await becomes(world, "demo", "Ready")
        hold(world, DEPLOYMENTS)
        make_again(world, **SERVING)
        await quiet(world)
        assert children(world) == []
        assert "unit-demo belongs to GPUUnit demo" in message_of(world.unit("demo"))
        assert world.unit("demo")["status"].get("nodeName", "") == ""

        release(world, DEPLOYMENTS)
        await becomes(world, "demo", "Ready")


async def test_a_unit_also_waits_for_a_deployment_that_may_create_pods_again() -> None:
    world = World()
    async with living(world), managing(world) as manager:
        world.add_unit("demo", suspended=True, **SERVING)
        await becomes(world, "demo", "Suspended")
        hold(world, DEPLOYMENTS)
        make_again(world, **SERVING)
        await quiet(world)
        assert children(world) == []
        assert reason_of(world.unit("demo")) == "DeploymentSyncFailed"
        manager.transport.sent.clear()
        await asyncio.sleep(60)
        assert [each.path for each in manager.transport.sent if not each.query] == []
        assert not any("limit" in dict(each.query) for each in manager.transport.sent)

        release(world, DEPLOYMENTS)
        await becomes(world, "demo", "Ready")


@pytest.mark.parametrize(
    ("resource", "reason"),
    [
        (DEPLOYMENTS, "DeploymentSyncFailed"),
        (SERVICES, "ServiceSyncFailed"),
        (NETWORK_POLICIES, "NetworkPolicySyncFailed"),
    ],
    ids=["Deployment", "Service", "NetworkPolicy"],
)
async def test_pods_are_not_listed_while_an_unlabelled_child_is_in_the_way(
    resource: Resource[Any], reason: str
) -> None:
    """The child has none of our labels, so no cache contains it."""
    world = World()
    body = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": "unit-demo"},
        "spec": SPECS[resource.kind],
    }
    async with living(world), managing(world) as manager:
        world.call("POST", resource.path(namespace=INSTANCE), body)
        world.add_unit("demo", **SERVING)
        await until(lambda: reason_of(world.unit("demo")), equals(reason))
        await asyncio.sleep(20)
        manager.transport.sent.clear()
        await asyncio.sleep(60)
        assert manager.transport.sent
        assert not any("limit" in dict(each.query) for each in manager.transport.sent)


async def test_a_unit_also_waits_for_an_earlier_pod_that_the_cache_lacks() -> None:
    world = World()
    async with living(world), managing(world) as manager:
        manager.transport.hold_watches("/pods")
        world.add_unit("demo", **SERVING)
        await becomes(world, "demo", "Ready")
        hold(world, PODS)
        make_again(world, **SERVING)
        await until(lambda: reason_of(world.unit("demo")), equals("DeploymentProgressing"))
        await quiet(world)
        assert children(world) == []

        manager.transport.release_watches()
        release(world, PODS)
        await becomes(world, "demo", "Ready")


async def test_a_restored_unit_starts_once_its_earlier_pod_has_ended() -> None:
    world = World()
    async with living(world):
        async with managing(world):
            world.add_unit("demo", **SERVING)
            await becomes(world, "demo", "Ready")
        status = world.unit("demo")["status"]
        hold(world, PODS)
        # A backup is taken and restored, seconds after its objects were created.
        await asyncio.sleep(5)
        make_again(world, **SERVING)
        path = GPU_UNITS.path(namespace=INSTANCE, name="demo", subresource="status")
        world.call("PATCH", path, {"status": status})
        async with managing(world):
            await until(lambda: reason_of(world.unit("demo")), equals("DeploymentProgressing"))
            await quiet(world)
            assert children(world) == []
            release(world, PODS)
            await becomes(world, "demo", "Ready")
            assert len(children(world)) == 3
