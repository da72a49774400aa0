"""The story of a unit that waits for a secret, keeps running without it, and needs it again."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from gpuruntime.kube.client import Client
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.claim_timing import REQUEST_LIFE_SECONDS
from gpuruntime.models.kinds.units import GPU_UNITS, GPUUnit
from gpuruntime.models.kubernetes.metadata import Key
from tests.proofs.simulation.callers import Caller
from tests.proofs.simulation.checks.cluster_observer import INSTANCE
from tests.proofs.simulation.checks.unit_status import is_ready, reason_of
from tests.proofs.simulation.stories.script import SecretStory

SECRETS: Final = "/secrets"
TENANT: Final = "blue"
CANARY: Final = "canary4711"
# A write of a request that was answered may land this much later, and not after it.
SETTLED_SECONDS: Final = REQUEST_LIFE_SECONDS + 10.0


class StoryContext(Protocol):
    """The part of a StoryRunner that this story needs."""

    @property
    def kubectl(self) -> Client: ...

    def caller(self, name: str) -> Caller: ...

    def unit(self, name: str) -> GPUUnit | None: ...

    def require(self, holds: object, what: str) -> None: ...

    def note(self, story: str, text: str) -> None: ...

    async def until(self, holds: Callable[[], object]) -> None: ...


async def use_secret(context: StoryContext, story: SecretStory) -> None:
    await asyncio.sleep(story.begins_at)
    caller: Caller = context.caller(story.name)
    await _create_unit(context, story)
    await context.until(partial(_has_reason, context, story.name, "PodStartupFailed"))
    await _store(context, caller, story)
    await context.until(lambda: is_ready(context.unit(story.name)))
    await asyncio.sleep(SETTLED_SECONDS)
    answer = (await caller.call("DELETE", f"{SECRETS}/{story.name}?tenant={TENANT}")).answer
    context.require(answer.status in (204, 404), f"{story.name}: {answer}")
    await asyncio.sleep(SETTLED_SECONDS)
    context.require(is_ready(context.unit(story.name)), f"{story.name} stopped with its secret")
    for is_suspended, reason in ((True, "ScaledToZero"), (False, "PodStartupFailed")):
        change: JsonObject = {"spec": {"suspended": is_suspended}}
        await context.kubectl.patch(GPU_UNITS, Key(INSTANCE, story.name), change)
        await context.until(partial(_has_reason, context, story.name, reason))
    await _store(context, caller, story)
    await context.until(lambda: is_ready(context.unit(story.name)))
    context.require(CANARY not in str(context.unit(story.name)), f"{story.name} shows a value")
    context.note(story.name, "ready with its secret")


def _has_reason(context: StoryContext, name: str, reason: str) -> bool:
    return reason_of(context.unit(name)) == reason


async def _create_unit(context: StoryContext, story: SecretStory) -> None:
    reference = {"name": story.name, "key": "token"}
    body: JsonObject = {
        "apiVersion": GPU_UNITS.api_version,
        "kind": GPU_UNITS.kind,
        "metadata": {"name": story.name, "labels": {labels.TENANT: TENANT}},
        "spec": {
            "specName": "direct",
            "image": "python:3.12",
            "memory": "1Gi",
            "template": {"envs": [{"name": "TOKEN", "secret": reference}]},
        },
    }
    await context.kubectl.create(GPU_UNITS, body, namespace=INSTANCE)


async def _store(context: StoryContext, caller: Caller, story: SecretStory) -> None:
    """Store the secret; then it is listed, and no answer shows its value."""
    body = {"name": story.name, "tenant": TENANT, "data": {"token": CANARY}}
    answer = (await caller.call("POST", SECRETS, body)).answer
    context.require(answer.status in (200, 201), f"{story.name}: {answer}")
    listed = (await caller.call("GET", f"{SECRETS}?tenant={TENANT}")).answer
    names = [each["name"] for each in listed.data or ()]
    context.require(story.name in names, f"{story.name} is stored and not listed")
    shown = f"{answer.data} {listed.data}"
    context.require(CANARY not in shown, f"an answer about {story.name} shows its value")
