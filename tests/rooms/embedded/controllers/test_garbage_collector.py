"""The garbage collector on the embedded cluster, custom kinds included."""

import asyncio

import pytest

from gpuruntime.embedded.controllers.custom_kinds import DEFINITIONS
from gpuruntime.embedded.kinds.cluster_objects import NAMESPACES, SERVICE_ACCOUNTS
from gpuruntime.embedded.kinds.pod_objects import PODS
from gpuruntime.embedded.kinds.workload_objects import DEPLOYMENTS, REPLICA_SETS
from gpuruntime.kube.errors import NotFoundError
from gpuruntime.models.kubernetes.cluster import CONFIG_MAPS
from gpuruntime.models.kubernetes.metadata import Key, PartialObject
from gpuruntime.models.kubernetes.resources import Resource
from tests.rooms.embedded.world import World, deployment_spec, running_cluster

pytestmark = pytest.mark.looptime

WIDGETS = Resource(
    group="example.com", version="v1", kind="Widget", plural="widgets", type=PartialObject
)


async def deployed(world: World) -> None:
    await world.make(DEPLOYMENTS, "web", spec=deployment_spec(replicas=1))
    await world.until(DEPLOYMENTS, "web", lambda found: found.status.availableReplicas)


async def owned_map(world: World, name: str, owner: Resource[PartialObject], of: str) -> None:
    found = await world.get(owner, of)
    reference = {"apiVersion": owner.api_version, "kind": owner.kind}
    reference |= {"name": of, "uid": found.metadata.uid}
    await world.make(CONFIG_MAPS, name, metadata={"ownerReferences": [reference]})


async def test_a_deleted_deployment_takes_its_children_along() -> None:
    async with running_cluster() as world:
        await deployed(world)
        (pod,) = await world.all(PODS)
        await world.delete(DEPLOYMENTS, "web")
        await world.until_gone(PODS, pod.metadata.name)
        assert await world.all(REPLICA_SETS) == []


async def test_foreground_deletion_removes_the_owner_last() -> None:
    async with running_cluster() as world:
        await deployed(world)
        await world.delete(DEPLOYMENTS, "web", propagation="Foreground")
        while await world.all(PODS):
            await world.get(DEPLOYMENTS, "web")
            await asyncio.sleep(0.01)
        await world.until_gone(DEPLOYMENTS, "web")


async def test_orphans_stay_and_lose_the_owner_reference() -> None:
    async with running_cluster() as world:
        await deployed(world)
        await world.delete(DEPLOYMENTS, "web", propagation="Orphan")
        await world.until_gone(DEPLOYMENTS, "web")
        (left,) = await world.all(REPLICA_SETS)
        assert left.metadata.ownerReferences == ()
        assert len(await world.all(PODS)) == 1


async def test_a_child_whose_owner_never_existed_is_deleted() -> None:
    async with running_cluster() as world:
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "nobody"}
        await world.make(CONFIG_MAPS, "child", metadata={"ownerReferences": [reference]})
        await world.until_gone(CONFIG_MAPS, "child")


async def test_a_child_with_an_owner_of_an_unknown_kind_stays() -> None:
    async with running_cluster() as world:
        reference = {"apiVersion": "example.com/v9", "kind": "Alien", "name": "x", "uid": "y"}
        await world.make(CONFIG_MAPS, "child", metadata={"ownerReferences": [reference]})
        await asyncio.sleep(60)
        await world.get(CONFIG_MAPS, "child")


async def test_children_of_custom_objects_are_deleted_with_them() -> None:
    async with running_cluster() as world:
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {"name": "v1", "served": True, "storage": True}
        spec = {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        }
        await world.make(DEFINITIONS, "widgets.example.com", spec=spec)
        await world.until(DEFINITIONS, "widgets.example.com", lambda found: found.is_established)
        await world.make(WIDGETS, "w", apiVersion="example.com/v1", kind="Widget")
        await owned_map(world, "child", WIDGETS, "w")
        await asyncio.sleep(30)
        await world.get(CONFIG_MAPS, "child")
        await world.delete(WIDGETS, "w")
        await world.until_gone(CONFIG_MAPS, "child")


async def test_every_namespace_has_its_service_account() -> None:
    async with running_cluster() as world:
        await world.make(NAMESPACES, "lab")
        key = Key("lab", "default")
        await asyncio.sleep(0.1)
        await world.client.get(SERVICE_ACCOUNTS, key)
        await world.client.delete(SERVICE_ACCOUNTS, key)
        await asyncio.sleep(0.1)
        await world.client.get(SERVICE_ACCOUNTS, key)


async def test_a_deleted_namespace_is_emptied_and_disappears() -> None:
    async with running_cluster() as world:
        await world.make(NAMESPACES, "lab")
        await world.make(
            DEPLOYMENTS, "web", spec=deployment_spec(replicas=2), metadata={"namespace": "lab"}
        )
        await asyncio.sleep(2)
        assert len(await world.all(PODS)) == 2
        await world.delete(NAMESPACES, "lab")
        await world.until_gone(NAMESPACES, "lab")
        assert await world.all(PODS) == []
        with pytest.raises(NotFoundError):
            await world.client.get(SERVICE_ACCOUNTS, Key("lab", "default"))
