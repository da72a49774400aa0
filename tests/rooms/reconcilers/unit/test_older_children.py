"""Children that a version created whose Pods had the name of their unit only, and not its uid."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs
import pytest

from gpuruntime.models.encoding import codec
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.network import NETWORK_POLICIES, SERVICES
from gpuruntime.models.kubernetes.pods import PODS
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS
from gpuruntime.reconcilers.children.drift import Child
from gpuruntime.reconcilers.unit.children import deployment_of, policy_of, service_of
from gpuruntime.reconcilers.unit.pod_template import Placement
from tests.eventually import equals
from tests.rooms.operations.cluster import INSTANCE, Document
from tests.rooms.reconcilers.world import OPTIONS, World, becomes, living, managing, quiet, until

pytestmark = pytest.mark.looptime

SERVING: Final[dict[str, Any]] = {"template": {"ports": [{"name": "http", "port": 80}]}}
BY_NAME: Final = {labels.UNIT: "demo"}


def without_uid(value: Any) -> Any:
    if isinstance(value, list):
        return [without_uid(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {name: without_uid(each) for name, each in value.items() if name != labels.UNIT_UID}


def older(child: Child) -> Document:
    return attrs.evolve(child, body=without_uid(child.body)).annotated()


@asynccontextmanager
async def upgraded() -> AsyncIterator[tuple[World, list[str]]]:
    """Yield a cluster with the unit demo, as the older version left it, under a manager."""
    world = World()
    document = world.add_unit("demo", **SERVING)
    unit = codec.decode(codec.encode(document), GPUUnit)
    for resource, child in (
        (NETWORK_POLICIES, policy_of(unit, OPTIONS, BY_NAME)),
        (SERVICES, service_of(unit, OPTIONS, BY_NAME)),
        (DEPLOYMENTS, deployment_of(unit, OPTIONS, Placement(), BY_NAME)),
    ):
        world.call("POST", resource.path(namespace=INSTANCE), older(child))
    async with living(world):
        await until(lambda: world.deployment("demo"), has_a_ready_pod)
        before = versions(world)
        async with managing(world):
            await becomes(world, "demo", "Ready")
            yield world, before


def has_a_ready_pod(deployment: Document) -> bool:
    ready: int = deployment.get("status", {}).get("readyReplicas", 0)
    return ready == 1


def selectors(world: World) -> list[Any]:
    (service,) = world.objects(SERVICES, INSTANCE)
    (policy,) = world.objects(NETWORK_POLICIES, INSTANCE)
    deployment = world.deployment("demo")
    return [
        deployment["spec"]["selector"]["matchLabels"],
        service["spec"]["selector"],
        policy["spec"]["podSelector"]["matchLabels"],
    ]


def pod_labels(world: World) -> dict[str, str]:
    (pod,) = world.objects(PODS, INSTANCE)
    found: dict[str, str] = pod["metadata"]["labels"]
    return found


def versions(world: World) -> list[str]:
    return [
        each["metadata"]["resourceVersion"]
        for resource in (PODS, DEPLOYMENTS, SERVICES, NETWORK_POLICIES)
        for each in world.objects(resource, INSTANCE)
    ]


async def test_an_upgrade_writes_no_child_and_restarts_no_pod() -> None:
    async with upgraded() as (world, before):
        assert world.unit("demo")["status"]["nodeName"] == "node-1"
        await asyncio.sleep(30)
        assert versions(world) == before


async def test_a_change_of_the_spec_is_carried_out_under_the_old_selector() -> None:
    async with upgraded() as (world, _):
        uid = world.deployment("demo")["metadata"]["uid"]
        world.change("demo", image="changed")
        await until(lambda: "changed" in repr(world.objects(PODS, INSTANCE)))
        await becomes(world, "demo", "Ready")
        await quiet(world)
        assert world.deployment("demo")["metadata"]["uid"] == uid
        assert selectors(world) == [BY_NAME, BY_NAME, BY_NAME]
        assert pod_labels(world)[labels.UNIT_UID] == world.unit("demo")["metadata"]["uid"]


async def test_a_suspended_unit_resumes_under_the_old_selector() -> None:
    async with upgraded() as (world, _):
        world.change("demo", suspended=True)
        await becomes(world, "demo", "Suspended")
        world.change("demo", suspended=False)
        await becomes(world, "demo", "Ready")
        assert selectors(world) == [BY_NAME, BY_NAME, BY_NAME]


async def test_a_deployment_that_is_created_again_selects_by_the_uid() -> None:
    async with upgraded() as (world, _):
        world.delete(DEPLOYMENTS, INSTANCE, "unit-demo")
        own = {**BY_NAME, labels.UNIT_UID: world.unit("demo")["metadata"]["uid"]}
        await until(lambda: world.names(DEPLOYMENTS, INSTANCE))
        await until(lambda: selectors(world), equals([own, own, own]))
        await becomes(world, "demo", "Ready")
        await quiet(world)
        assert own.items() <= pod_labels(world).items()
