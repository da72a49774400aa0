"""The objects and the policy that the manifests bring to a cluster, for the one of dev."""

from collections.abc import Mapping
from typing import Any, Final

import attrs

from gpuruntime.embedded.controllers.custom_kinds import DEFINITIONS
from gpuruntime.embedded.kinds.cluster_objects import NAMESPACES
from gpuruntime.embedded.nodes.seed_objects import DeviceOptions
from gpuruntime.embedded.objects.admission import CreationPolicy
from gpuruntime.embedded.objects.registry import Target
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import AlreadyExistsError
from gpuruntime.models.definitions.crds import crds
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds.labels import UNMANAGED
from gpuruntime.models.kinds.pools import STOCK_POOLS
from gpuruntime.models.kinds.storages import GPU_STORAGES
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.cluster import PRIORITY_CLASSES
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.resources import Resource
from gpuruntime.settings.dev import DeviceSettings
from gpuruntime.settings.schema import NamespaceSettings, Settings

# Stock makes way for active units and for no other Pods.
PRIORITIES: Final = {"stock": (-10, "Never"), "instance": (0, "PreemptLowerPriority")}


def device_options(settings: DeviceSettings) -> DeviceOptions | None:
    """Return the devices of each node, or None if the nodes have none."""
    if not settings.count:
        return None
    return DeviceOptions(
        count=settings.count,
        class_name=settings.className,
        driver=settings.driver,
        product=settings.product,
    )


async def install(client: Client, settings: Settings) -> None:
    """Create the definitions, namespaces and priority classes that do not exist yet.

    Restored definitions may be those of an earlier version, so they are changed to ours.
    """
    for definition in crds():
        if not await _create(client, DEFINITIONS, definition):
            key = Key("", _name_of(definition))
            await client.patch(DEFINITIONS, key, {"spec": definition["spec"]})
    for name in attrs.asdict(settings.namespaces).values():
        await _create(client, NAMESPACES, _named(NAMESPACES, name))
    classes = attrs.asdict(settings.priorityClasses)
    for use, (value, preemption) in PRIORITIES.items():
        body = _named(PRIORITY_CLASSES, classes[use])
        await _create(
            client, PRIORITY_CLASSES, {**body, "value": value, "preemptionPolicy": preemption}
        )


def namespace_policy(namespaces: NamespaceSettings) -> CreationPolicy:
    """Return the twin of the policy `gpuruntime-namespaces` in manifests/base/admission.yaml."""
    places = {
        GPU_UNITS.plural: (namespaces.instance, namespaces.stock),
        STOCK_POOLS.plural: (namespaces.stock,),
        GPU_STORAGES.plural: (namespaces.instance,),
    }

    def refusal(target: Target, labels: Mapping[str, str]) -> str:
        is_ours = target.kind.group == GPU_UNITS.group and target.kind.plural in places
        if not is_ours or labels.get(UNMANAGED) == "true":
            return ""
        plural, namespace = target.kind.plural, target.namespace
        if namespace in places[plural]:
            return ""
        return (
            f"gpuruntime does not read {plural} in the namespace {namespace}: create it in "
            f"{' or '.join(places[plural])}, or allow it with: kubectl label namespace "
            f"{namespace} {UNMANAGED}=true"
        )

    return CreationPolicy(name="gpuruntime-namespaces", refusal=refusal)


async def _create(client: Client, resource: Resource[Any], body: JsonObject) -> bool:
    """Create the object, and return whether it is new."""
    try:
        await client.create(resource, body)
    except AlreadyExistsError:
        return False
    return True


def _name_of(body: JsonObject) -> str:
    metadata = body["metadata"]
    return str(metadata["name"]) if isinstance(metadata, Mapping) else ""


def _named(resource: Resource[Any], name: str) -> JsonObject:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name},
    }
