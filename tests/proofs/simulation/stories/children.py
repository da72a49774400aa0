"""Runs of the stories of a unit's children. They bypass the API with kubectl."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.json import JsonObject, JsonValue
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.units import GPU_UNITS, GPUUnit, child_key
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.network import (
    NETWORK_POLICIES,
    SERVICES,
    NetworkPolicy,
    Service,
)
from gpuruntime.models.kubernetes.pods import PODS, Pod
from gpuruntime.models.kubernetes.resources import Resource
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS, Deployment
from tests.proofs.simulation.checks.cluster_observer import INSTANCE
from tests.proofs.simulation.checks.unit_status import is_ready
from tests.proofs.simulation.stories.children_script import ChildEdit, EditedStory, RemadeStory
from tests.proofs.simulation.stories.direct_writes import StoryContext, write_unit

Child: TypeAlias = Deployment | Service | NetworkPolicy

LOOK_SECONDS: Final = 1.0
CHILDREN: Final = (DEPLOYMENTS, SERVICES, NETWORK_POLICIES)
SPEC: Final[JsonObject] = {
    "specName": "direct",
    "image": "a:1",
    "template": {"ports": [{"name": "http", "port": 8080}]},
}
HELD: Final = "tests.example.com/held"
EDITS: Final[Mapping[ChildEdit, tuple[Resource[Any], JsonObject]]] = {
    ChildEdit.SERVICE_SELECTOR: (SERVICES, {"spec": {"selector": {"added": "x"}}}),
    ChildEdit.POLICY_SELECTOR: (
        NETWORK_POLICIES,
        {"spec": {"podSelector": {"matchLabels": {"added": "x"}}}},
    ),
    ChildEdit.POLICY_RULES: (NETWORK_POLICIES, {"spec": {"ingress": [{}]}}),
    ChildEdit.OPEN_TEMPLATE: (
        DEPLOYMENTS,
        {"spec": {"template": {"spec": {"hostNetwork": True, "hostPID": True}}}},
    ),
    ChildEdit.OTHER_UNIT: (DEPLOYMENTS, {"metadata": {"labels": {labels.UNIT: "other"}}}),
    ChildEdit.NO_UNIT: (
        DEPLOYMENTS,
        {"metadata": {"labels": {labels.UNIT: None, labels.UNIT_UID: None}}},
    ),
    ChildEdit.NO_MANAGER: (DEPLOYMENTS, {"metadata": {"labels": {labels.MANAGED_BY: None}}}),
    ChildEdit.NO_OWNER: (DEPLOYMENTS, {"metadata": {"ownerReferences": []}}),
}


async def edit_children(context: StoryContext, story: EditedStory) -> None:
    """Edit the children of a unit, and wait until all edits are put back."""
    await asyncio.sleep(story.begins_at)
    await write_unit(context, story.name, SPEC)
    await context.until(lambda: is_ready(context.unit(story.name)))
    unit = context.unit(story.name)
    assert unit is not None
    before = [*_bodies(context, unit)]
    for pause, edit in story.edits:
        await asyncio.sleep(pause)
        resource, patch = EDITS[edit]
        await context.kubectl.patch(resource, child_key(unit), patch)
        context.note(story.name, edit)
    await context.until(lambda: [*_bodies(context, unit)] == before)


async def remake(context: StoryContext, story: RemadeStory) -> None:
    """Create a unit again, and check that nothing of it leads to the Pod of the earlier one."""
    await asyncio.sleep(story.begins_at)
    await write_unit(context, story.name, SPEC)
    await context.until(lambda: is_ready(context.unit(story.name)))
    earlier = _pod(context, story.name)
    await _hold(context, earlier, [HELD])
    await context.kubectl.delete(GPU_UNITS, Key(INSTANCE, story.name))
    await context.until(lambda: context.unit(story.name) is None)
    await write_unit(context, story.name, SPEC)
    while not is_ready(unit := context.unit(story.name)):
        _check(context, unit, earlier)
        await asyncio.sleep(LOOK_SECONDS)
    _check(context, unit, earlier)
    await _hold(context, earlier, [])
    context.note(story.name, "created again")


def _check(context: StoryContext, unit: GPUUnit | None, earlier: Pod) -> None:
    for kind, child in _children(context, unit) if unit else ():
        selects = _selector(child).items() <= earlier.metadata.labels.items()
        what = f"{kind} {child.metadata.key} selects a Pod of the earlier unit of that name"
        context.require(not selects, what)


def _bodies(context: StoryContext, unit: GPUUnit) -> Iterator[tuple[Any, ...]]:
    """Yield what the manager sets of each child."""
    for kind, child in _children(context, unit):
        metadata = child.metadata
        spec = codec.decode_object(bytes(child.spec))
        yield kind, metadata.labels, metadata.ownerReferences, spec


def _children(context: StoryContext, unit: GPUUnit) -> Iterator[tuple[str, Child]]:
    """Yield the children that have the unit's name, except those of an earlier unit."""
    for resource in CHILDREN:
        for child in context.observer.continuous_audit.held(resource.kind):
            owner = child.metadata.controller_owner
            is_of_other = owner is not None and owner.uid != unit.metadata.uid
            if child.metadata.key == child_key(unit) and not is_of_other:
                yield resource.kind, child


def _selector(child: Child) -> Mapping[str, JsonValue]:
    spec: Any = codec.decode_object(bytes(child.spec))
    selector = spec.get("selector") or spec["podSelector"]
    return selector.get("matchLabels", selector)  # type: ignore[no-any-return]


def _pod(context: StoryContext, unit: str) -> Pod:
    pods: tuple[Pod, ...] = context.observer.continuous_audit.held(PODS.kind)
    return next(
        each
        for each in pods
        if each.metadata.labels.get(labels.UNIT) == unit and each.metadata.namespace == INSTANCE
    )


async def _hold(context: StoryContext, pod: Pod, finalizers: list[JsonValue]) -> None:
    """Keep the Pod from ending, or let it end."""
    patch: JsonObject = {"metadata": {"finalizers": finalizers}}
    await context.kubectl.patch(PODS, pod.metadata.key, patch)
