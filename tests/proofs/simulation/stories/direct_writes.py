"""Stories of units that are written with kubectl instead of the API."""

import asyncio
from collections.abc import Callable
from typing import Protocol

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
    RestoredStory,
    ResumedStory,
)


class StoryContext(Protocol):
    """The part of a StoryRunner that these stories need."""

    @property
    def kubectl(self) -> Client: ...

    @property
    def observer(self) -> ClusterObserver: ...

    def unit(self, name: str) -> GPUUnit | None: ...

    async def until(self, holds: Callable[[], object]) -> None: ...


async def write_directly(context: StoryContext, story: DirectStory | ResumedStory) -> None:
    await asyncio.sleep(story.begins_at)
    if isinstance(story, ResumedStory):
        await _resume_without_room(context, story)
        return
    key = Key(INSTANCE, story.name)
    memory = "not-a-quantity" if story.is_bad else "1Gi"
    spec: JsonObject = {"specName": "direct", "image": "python:3.12", "memory": memory}
    await _write(context, story.name, spec, {})
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
    await _write(context, story.name, spec, source)
    await context.until(lambda: is_ready(context.unit(story.name)))


async def _resume_without_room(context: StoryContext, story: ResumedStory) -> None:
    """Resume a unit that no node takes; its status at the end is compared with a fresh look."""
    spec: JsonObject = {"specName": "vast", "image": "a:1", "memory": "64Ti", "suspended": True}
    await _write(context, story.name, spec, {})
    await context.until(lambda: reason_of(context.unit(story.name)) == "ScaledToZero")
    key = Key(INSTANCE, story.name)
    await context.kubectl.patch(GPU_UNITS, key, {"spec": {"suspended": False}})


async def _write(
    context: StoryContext, name: str, spec: JsonObject, annotations: JsonObject
) -> None:
    body: JsonObject = {
        "apiVersion": GPU_UNITS.api_version,
        "kind": GPU_UNITS.kind,
        "metadata": {"name": name, "annotations": annotations},
        "spec": spec,
    }
    await context.kubectl.create(GPU_UNITS, body, namespace=INSTANCE)
