"""Edits of a unit's children by hand: what leads elsewhere or opens a Pod is put back."""

import asyncio
from typing import Any, Final

import pytest

from gpuruntime.models.encoding.json import JsonValue
from gpuruntime.models.kinds import labels
from gpuruntime.models.kubernetes.network import NETWORK_POLICIES, SERVICES
from gpuruntime.models.kubernetes.resources import Resource
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS
from tests.rooms.operations.cluster import INSTANCE, Document
from tests.rooms.reconcilers.world import World, becomes, living, managing, quiet

pytestmark = pytest.mark.looptime

SERVING: Final[dict[str, Any]] = {"template": {"ports": [{"name": "http", "port": 80}]}}
CHILDREN: Final = (DEPLOYMENTS, SERVICES, NETWORK_POLICIES)
ANYONE: Final = {"ipBlock": {"cidr": "0.0.0.0/0"}}


def in_pod(**members: Any) -> Document:
    return {"spec": {"template": {"spec": members}}}


def in_labels(**given: Any) -> Document:
    return {"metadata": {"labels": {f"{labels.GROUP}/{name}": to for name, to in given.items()}}}


def container(world: World, **members: Any) -> Document:
    """Return the edit that adds members to the container of the unit's Deployment."""
    (present,) = world.deployment("demo")["spec"]["template"]["spec"]["containers"]
    return in_pod(containers=[{**present, **members}])


def other_volumes(world: World) -> Document:
    volumes = world.deployment("demo")["spec"]["template"]["spec"]["volumes"]
    return in_pod(volumes=[*volumes, {"name": "host", "hostPath": {"path": "/"}}])


def wider_port(world: World) -> Document:
    (policy,) = world.objects(NETWORK_POLICIES, INSTANCE)
    (rule,) = policy["spec"]["ingress"]
    ports = [{**port, "endPort": 65_535} for port in rule["ports"]]
    return {"spec": {"ingress": [{**rule, "ports": ports}]}}


def owners(_: World, *references: Document) -> Document:
    return {"metadata": {"ownerReferences": [*references]}}


PRIVILEGED: Final = {"privileged": True, "allowPrivilegeEscalation": False}
HELPER: Final = {"name": "helper", "image": "i"}
EDITS: Final[dict[str, tuple[Resource[Any], Any]]] = {
    "a key added to the selector of the Service": (
        SERVICES,
        {"spec": {"selector": {"added": "x"}}},
    ),
    "another unit selected by the Service": (
        SERVICES,
        {"spec": {"selector": {labels.UNIT: "other"}}},
    ),
    "an external address of the Service": (SERVICES, {"spec": {"externalIPs": ["192.0.2.1"]}}),
    "Pods that are not ready behind the Service": (
        SERVICES,
        {"spec": {"publishNotReadyAddresses": True}},
    ),
    "a key added to the selector of the policy": (
        NETWORK_POLICIES,
        {"spec": {"podSelector": {"matchLabels": {"added": "x"}}}},
    ),
    "an expression added to the selector of the policy": (
        NETWORK_POLICIES,
        {"spec": {"podSelector": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}}},
    ),
    "another rule of the policy": (
        NETWORK_POLICIES,
        {"spec": {"ingress": [{"from": [ANYONE]}]}},
    ),
    "more ports in a rule of the policy": (NETWORK_POLICIES, wider_port),
    "the policy of one direction": (NETWORK_POLICIES, {"spec": {"policyTypes": ["Ingress"]}}),
    "the host's network": (DEPLOYMENTS, in_pod(hostNetwork=True)),
    "the host's processes": (DEPLOYMENTS, in_pod(hostPID=True, hostIPC=True)),
    "another service account": (
        DEPLOYMENTS,
        in_pod(serviceAccountName="admin", automountServiceAccountToken=True),
    ),
    "a path of the host": (DEPLOYMENTS, other_volumes),
    "a privileged container": (
        DEPLOYMENTS,
        lambda world: container(world, securityContext=PRIVILEGED),
    ),
    "an added capability": (
        DEPLOYMENTS,
        lambda world: container(
            world,
            securityContext={
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]},
            },
        ),
    ),
    "the variables of a Secret": (
        DEPLOYMENTS,
        lambda world: container(world, envFrom=[{"secretRef": {"name": "s"}}]),
    ),
    "a port of the host": (
        DEPLOYMENTS,
        lambda world: container(
            world,
            ports=[{"name": "http", "containerPort": 80, "protocol": "TCP", "hostPort": 80}],
        ),
    ),
    "root in the Pod": (DEPLOYMENTS, in_pod(securityContext={"runAsUser": 0})),
    "another container before ours": (DEPLOYMENTS, in_pod(initContainers=[HELPER])),
    "one node": (DEPLOYMENTS, in_pod(nodeName="node-9")),
    "a label of ours that the unit does not have": (DEPLOYMENTS, in_labels(tenant="b")),
    "the unit's name": (DEPLOYMENTS, in_labels(unit="other")),
    "the unit's name, removed": (SERVICES, in_labels(unit=None)),
    "the mark of the manager": (
        SERVICES,
        {"metadata": {"labels": {labels.MANAGED_BY: "helm"}}, "spec": {"selector": {"a": "b"}}},
    ),
    "a second owner": (
        DEPLOYMENTS,
        lambda world: owners(
            world,
            *world.deployment("demo")["metadata"]["ownerReferences"],
            {"apiVersion": "v1", "kind": "Thing", "name": "t", "uid": "t"},
        ),
    ),
    "no owner": (DEPLOYMENTS, owners),
    "an owner that controls nothing": (
        DEPLOYMENTS,
        lambda world: owners(
            world,
            *(
                {**each, "controller": False}
                for each in world.deployment("demo")["metadata"]["ownerReferences"]
            ),
        ),
    ),
}


def bodies(world: World) -> list[tuple[JsonValue, ...]]:
    """Return what our code set in the children of the unit."""
    return [
        (each["metadata"]["labels"], each["metadata"].get("ownerReferences"), each["spec"])
        for resource in CHILDREN
        for each in world.objects(resource, INSTANCE)
    ]


def edit(world: World, resource: Resource[Any], change: Any) -> None:
    patch = change(world) if callable(change) else change
    world.call("PATCH", resource.path(namespace=INSTANCE, name="unit-demo"), patch)


@pytest.mark.parametrize(("resource", "change"), EDITS.values(), ids=EDITS)
async def test_an_edit_is_put_back_at_once_by_one_write(
    resource: Resource[Any], change: Any
) -> None:
    world = World()
    async with living(world), managing(world):
        world.add_unit("demo", **SERVING)
        await becomes(world, "demo", "Ready")
        await quiet(world)
        before = bodies(world)
        world.ledger.done.clear()
        edit(world, resource, change)
        assert bodies(world) != before
        await asyncio.sleep(0.1)
        assert bodies(world) == before
        await quiet(world)
        path = resource.path(namespace=INSTANCE, name="unit-demo")
        assert [each for each in world.ledger.done if "/unit-demo" in each] == [f"PATCH {path}"]


@pytest.mark.parametrize(("resource", "change"), EDITS.values(), ids=EDITS)
async def test_an_edit_while_no_manager_runs_is_put_back_by_the_next_one(
    resource: Resource[Any], change: Any
) -> None:
    world = World()
    async with managing(world):
        world.add_unit("demo", **SERVING)
        await quiet(world)
    before = bodies(world)
    edit(world, resource, change)
    async with managing(world):
        await quiet(world)
    assert bodies(world) == before


async def test_labels_and_annotations_of_others_stay() -> None:
    world = World()
    async with living(world), managing(world) as manager:
        world.add_unit("demo", **SERVING)
        await becomes(world, "demo", "Ready")
        await quiet(world)
        marks = {"labels": {"team": "x"}, "annotations": {"team": "x"}}
        for resource in CHILDREN:
            edit(world, resource, {"metadata": marks})
        edit(world, DEPLOYMENTS, {"spec": {"template": {"metadata": marks}}})
        before = bodies(world)
        manager.transport.sent.clear()
        await asyncio.sleep(30)
        assert bodies(world) == before
        assert [each for each in manager.transport.written() if each.endswith("/unit-demo")] == []
