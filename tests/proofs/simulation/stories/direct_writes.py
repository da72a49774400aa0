"""Stories of units that are written with kubectl instead of the API."""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from gpuruntime.embedded.kinds.cluster_objects import NODES
from gpuruntime.embedded.nodes.failures import FAIL_VARIABLE, Fault
from gpuruntime.kube.client import Client
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.units import GPU_UNITS, GPUUnit
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.operations.hashing import derived_name
from tests.proofs.simulation.checks.cluster_observer import INSTANCE, ClusterObserver
from tests.proofs.simulation.checks.unit_status import is_ready, reason_of
from tests.proofs.simulation.stories.script import (
    ENVELOPES,
    DirectStory,
    LateNodeStory,
    RestoredStory,
    ResumedStory,
)

PRODUCT: Final = "NVIDIA-LATE"
# Longer than the stage of a quick start.
WAIT_SECONDS: Final = 10.0
NEVER_READY: Final[JsonObject] = {
    "envs": [{"name": FAIL_VARIABLE, "value": Fault.NEVER_READY}],
}


class StoryContext(Protocol):
    """The part of a StoryRunner that these stories need."""

    @property
    def kubectl(self) -> Client: ...

    @property
    def observer(self) -> ClusterObserver: ...

    def unit(self, name: str) -> GPUUnit | None: ...

    def require(self, holds: object, what: str) -> None: ...

    def note(self, story: str, text: str) -> None: ...

    async def until(self, holds: Callable[[], object]) -> None: ...


async def write_directly(context: StoryContext, story: DirectStory) -> None:
    await asyncio.sleep(story.begins_at)
    key = Key(INSTANCE, story.name)
    memory = "not-a-quantity" if story.is_bad else "1Gi"
    spec: JsonObject = {"specName": "direct", "image": "python:3.12", "memory": memory}
    await write_unit(context, story.name, spec)
    if story.is_bad:
        await context.until(lambda: reason_of(context.unit(story.name)) == "InvalidSpec")
        await context.kubectl.patch(GPU_UNITS, key, {"spec": {"memory": "1Gi"}})
    await context.until(lambda: is_ready(context.unit(story.name)))
    if story.is_deleted:
        await context.kubectl.delete(GPU_UNITS, key)


async def restore(context: StoryContext, story: RestoredStory) -> None:
    """Create a unit as from a backup. It starts once its own or other stock is held for it."""
    await asyncio.sleep(story.begins_at)
    await context.until(lambda: context.observer.free("ample"))
    stock = context.observer.free("ample")[0]
    source: JsonObject = {
        labels.OPERATION_ID: story.name,
        labels.REQUEST_HASH: derived_name(story.name),
        labels.SOURCE_STOCK: str(stock.metadata.key),
        labels.SOURCE_STOCK_UID: stock.metadata.uid,
    }
    spec: JsonObject = {"specName": "ample", "image": "a:1", **ENVELOPES["ample"]}
    await write_unit(context, story.name, spec, source)
    await context.until(lambda: is_ready(context.unit(story.name)))


async def resume_without_room(context: StoryContext, story: ResumedStory) -> None:
    """Resume a unit that no node takes; its status at the end is compared with a fresh look."""
    await asyncio.sleep(story.begins_at)
    spec: JsonObject = {"specName": "vast", "image": "a:1", "memory": "64Ti", "suspended": True}
    await write_unit(context, story.name, spec)
    await context.until(lambda: reason_of(context.unit(story.name)) == "ScaledToZero")
    key = Key(INSTANCE, story.name)
    await context.kubectl.patch(GPU_UNITS, key, {"spec": {"suspended": False}})


async def start_slowly(context: StoryContext, story: LateNodeStory) -> None:
    """Start a unit once a node is labelled; at the end its status says which stage never ends."""
    await asyncio.sleep(story.begins_at)
    spec: JsonObject = {"specName": "late", "image": "a:1", "gpuProduct": PRODUCT}
    await write_unit(context, story.name, {**spec, "template": NEVER_READY})
    await context.until(lambda: reason_of(context.unit(story.name)) == "PodUnschedulable")
    await asyncio.sleep(WAIT_SECONDS)
    labelled: JsonObject = {"metadata": {"labels": {labels.GPU_PRODUCT: PRODUCT}}}
    await context.kubectl.patch(NODES, Key("", "node-0"), labelled)


async def write_unit(
    context: StoryContext, name: str, spec: JsonObject, annotations: JsonObject | None = None
) -> None:
    body: JsonObject = {
        "apiVersion": GPU_UNITS.api_version,
        "kind": GPU_UNITS.kind,
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": spec,
    }
    await context.kubectl.create(GPU_UNITS, body, namespace=INSTANCE)
